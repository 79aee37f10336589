import { sql } from "drizzle-orm";
import { openLocalDatabase } from "../../src/operator/database/local.ts";
import { createKeys, type KeyLimits, placeLongOrders } from "../process/store-content.ts";
import { type Answer, Subject } from "./referee.ts";
import type { Ask, World } from "./world.ts";

/** The wait after a request without a valid response, in milliseconds. */
const RECONNECT_MS = 300;

/** Clients cancel only orders with ids up to this one. */
const CANCELLABLE = 1_000;

type Play = (world: World, subject: Subject) => Promise<void>;

function anyAsk({ draw }: World, listShare: number): Ask {
  if (draw() < listShare) return {};
  if (draw() < 0.9) return draw() < 0.7 ? { path: "/v1/none" } : { method: "POST" };
  const id = 1 + Math.floor(draw() * CANCELLABLE);
  return { method: "DELETE", path: `/v1/store/orders/${id}` };
}

/**
 * Sends random requests, this share of them lists. `waitMs` returns the milliseconds to wait after
 * each response.
 */
function sending(listShare: number, waitMs: (answer: Answer) => number): Play {
  return async (world, subject) => {
    while (!world.isOver) {
      const answer = await world.send(subject, anyAsk(world, listShare));
      await world.wait(answer === null ? RECONNECT_MS : waitMs(answer));
    }
  };
}

/** Waits exactly as long as `Retry-After`. A client with its own key must then be admitted. */
function patient(paceMs: number, isAlone: boolean): Play {
  return (world, subject) => {
    let hasWaited = false;
    return sending(0.2, ({ status, retryAfterSeconds: seconds }) => {
      if (isAlone && status === 503) world.wrong.push(`${subject.name} received 503`);
      const isWrong = isAlone && hasWaited && status === 429;
      if (isWrong) world.wrong.push(`${subject.name} had waited for Retry-After`);
      // The Retry-After of a 503 says nothing about the limits.
      hasWaited = status === 429;
      return seconds === null ? paceMs * (0.5 + world.draw()) : seconds * 1_000;
    })(world, subject);
  };
}

/** Sends requests, and waits equally long after every response, even after a refusal. */
const hammering = (paceMs: number) => sending(0.02, () => paceMs);

/** Requests lists, reads nothing of them, and closes each connection after at most `mostMs`. */
function leaving(mostMs: number, paceMs: number): Play {
  return async (world, subject) => {
    while (!world.isOver) {
      void world.leave(subject, world.draw() * mostMs);
      await world.wait(paceMs);
    }
  };
}

/** A kind of client, with the number of its keys and the number of clients that share each key. */
interface Role {
  readonly name: string;
  readonly limits: KeyLimits;
  readonly keys: number;
  readonly clients: number;
  readonly isWellBehaved: boolean;
  readonly play: Play;
}

const single = { clients: 1, isWellBehaved: true };
const hostile = { limits: "free", keys: 2, isWellBehaved: false } as const;

const alone = (paceMs: number) => patient(paceMs, true);
const inFleet = patient(500, false);
const keeping = leaving(300_000, 1_000);
const hoarding = leaving(300_000, 20_000);

const FEW = { perMinute: 3, perDay: 100 };
const ONE_DAY = { perMinute: 40, perDay: 70 };

const ROLES: readonly Role[] = [
  { name: "patient", limits: "free", keys: 20, ...single, play: alone(100) },
  { name: "patient", limits: "pro", keys: 6, ...single, play: alone(60) },
  { name: "patient", limits: "business", keys: 2, ...single, play: alone(25) },
  { name: "patient", limits: FEW, keys: 6, ...single, play: alone(50) },
  { name: "patient until tomorrow", limits: ONE_DAY, keys: 4, ...single, play: alone(100) },
  { name: "a fleet", limits: "free", keys: 2, clients: 40, isWellBehaved: true, play: inFleet },
  { name: "a fleet", limits: "pro", keys: 1, clients: 60, isWellBehaved: true, play: inFleet },
  { name: "hammering", ...hostile, clients: 3, play: hammering(30) },
  { name: "hammering", ...hostile, limits: "business", clients: 4, play: hammering(20) },
  { name: "hammering slowly", ...hostile, clients: 1, play: hammering(300) },
  { name: "observing", limits: "free", keys: 1, ...single, play: async () => {} },
  { name: "dropping connections", ...hostile, clients: 2, play: leaving(20, 150) },
  { name: "hoarding lists", ...hostile, keys: 20, clients: 1, play: hoarding },
  { name: "keeping lists", ...hostile, keys: 1, clients: 1, play: keeping },
  { name: "keeping lists", ...hostile, limits: "business", keys: 1, clients: 1, play: keeping },
];

/** The list is longer than what the connection of a client that does not read buffers. */
const ORDERS = 24_000;
const SHIPPED_EVERY = 10;

/** The keys in the soak's store, each with the role of its clients. */
export type Cast = Awaited<ReturnType<typeof prepareStore>>;

export async function prepareStore(folder: string) {
  const cast = ROLES.flatMap((role, index) =>
    Array.from({ length: role.keys }, (_, n) => ({ role, name: `${role.name} ${index}.${n}` })),
  );
  const limits = cast.map(({ role, name }) => [name, role.limits] as const);
  const keys = await createKeys(folder, Object.fromEntries(limits));
  await placeLongOrders(folder, ORDERS);
  using orders = await openLocalDatabase(folder, "orders");
  await orders.orm.run(sql`UPDATE orders SET status = 'shipped' WHERE id % ${SHIPPED_EVERY} = 0`);
  return cast.map(({ role, name }) => ({ role, name, key: keys[name]! }));
}

export async function playAll(world: World, cast: Cast): Promise<void> {
  const playing = cast.flatMap(({ role, name, key }) => {
    const subject = new Subject(name, key, role.isWellBehaved);
    world.subjects.push(subject);
    return Array.from({ length: role.clients }, () => role.play(world, subject));
  });
  await Promise.all(playing);
}

/** Returns the faults in the list of orders after the soak. */
export async function judgeOrders(world: World, cast: Cast): Promise<string[]> {
  // No client has used the observer's key, so the rate limits admit this request.
  const observer = cast.find(({ role }) => role.name === "observing")!;
  const response = await (await world.server).request(observer.key);
  const listed = (await response.json()) as { id: number }[];
  const ids = new Set(listed.map(({ id }) => id));
  const wrong: string[] = [];
  for (let id = 1; id <= ORDERS; id += 1) {
    const cancelled = world.cancelled.get(`/v1/store/orders/${id}`) ?? 0;
    // An order beyond those that clients cancel, or one that has shipped, is never gone.
    const isKept = id > CANCELLABLE || id % SHIPPED_EVERY === 0;
    if (isKept && !ids.has(id)) wrong.push(`order ${id} is gone`);
    if (cancelled > (isKept ? 0 : 1)) wrong.push(`order ${id} was cancelled ${cancelled} times`);
    if (cancelled > 0 && ids.has(id)) wrong.push(`order ${id} is back after it was cancelled`);
  }
  return wrong;
}
