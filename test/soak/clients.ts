import { sql } from "drizzle-orm";
import { openLocalDatabase } from "../../src/operator/database/local.ts";
import { createKeys, type KeyLimits, placeLongOrders } from "../process/store-content.ts";
import { HAMMERING } from "./referee.ts";
import type { Answer, Subject, World } from "./world.ts";

const LIST = "/v1/store/orders";

/** The wait after a request without a valid response, in milliseconds. */
const RECONNECT_MS = 300;

/** Clients cancel only orders with ids up to this one. */
const CANCELLABLE = 1_000;

type Play = (world: World, subject: Subject) => Promise<void>;

/** Returns the method and path of a request. This share of all are lists. */
function anyRequest({ draw }: World, listShare: number): [method: string, path: string] {
  if (draw() < listShare) return ["GET", LIST];
  if (draw() < 0.9) return draw() < 0.7 ? ["GET", "/v1/none"] : ["POST", LIST];
  return ["DELETE", `${LIST}/${1 + Math.floor(draw() * CANCELLABLE)}`];
}

/** Sends random requests. `waitMs` returns the milliseconds to wait after each response. */
function sending(listShare: number, waitMs: (answer: Answer) => number): Play {
  return async (world, subject) => {
    while (!world.isOver) {
      const answer = await world.send(subject, ...anyRequest(world, listShare));
      await world.wait(answer === null ? RECONNECT_MS : waitMs(answer));
    }
  };
}

/** Waits exactly as long as `Retry-After`. A client with its own key must then be admitted. */
function patient(paceMs: number, isAlone = true): Play {
  return (world, subject) => {
    let before: number | null = null;
    return sending(0.2, ({ status, retryAfterSeconds: seconds }) => {
      const isWrong = status === 503 || (status === 429 && before === 429);
      if (isAlone && isWrong)
        world.wrong.push(`${subject.name} received ${status} after ${before}`);
      before = status;
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

const FEW = { perMinute: 3, perDay: 100 };
const ONE_DAY = { perMinute: 40, perDay: 70 };

/** Kinds of clients, with the numbers of their keys and of the clients that share each key. */
const KINDS: readonly [role: string, KeyLimits, keys: number, clients: number, Play][] = [
  ["patient", "free", 20, 1, patient(100)],
  ["patient", "pro", 6, 1, patient(60)],
  ["patient", "business", 2, 1, patient(25)],
  ["patient", FEW, 6, 1, patient(50)],
  ["patient until tomorrow", ONE_DAY, 4, 1, patient(100)],
  ["a fleet", "free", 2, 40, patient(500, false)],
  ["a fleet", "pro", 1, 60, patient(500, false)],
  [HAMMERING, "free", 2, 3, hammering(30)],
  [HAMMERING, "business", 2, 4, hammering(20)],
  [HAMMERING, "free", 2, 1, hammering(300)],
  ["dropping connections", "free", 2, 2, leaving(20, 150)],
  ["hoarding lists", "free", 20, 1, leaving(300_000, 20_000)],
  ["keeping lists", "business", 2, 1, leaving(300_000, 1_000)],
];

/** The list is longer than what the connection of a client that does not read buffers. */
const ORDERS = 24_000;
const SHIPPED_EVERY = 10;

/** Creates the keys of the soak, each with its clients, and one that no client uses. */
export async function prepareStore(folder: string) {
  const cast = KINDS.flatMap(([role, limits, keys, clients, play], index) =>
    Array.from({ length: keys }, (_, n) => {
      return { role, name: `${role} ${index}.${n}`, limits, clients, play };
    }),
  );
  const plans: Record<string, KeyLimits> = { observer: "free" };
  for (const { name, limits } of cast) plans[name] = limits;
  const keys = await createKeys(folder, plans);
  await placeLongOrders(folder, ORDERS);
  using orders = await openLocalDatabase(folder, "orders");
  await orders.orm.run(sql`UPDATE orders SET status = 'shipped' WHERE id % ${SHIPPED_EVERY} = 0`);
  const seen = (): Pick<Subject, "answers" | "unknownMs"> => ({ answers: [], unknownMs: [] });
  const withKeys = cast.map((one) => ({ ...one, key: keys[one.name]!, ...seen() }));
  return { cast: withKeys, observer: keys["observer"]! };
}

/** Returns the faults in the list of orders after the soak, which a key that has room requests. */
export async function judgeOrders(world: World, key: string): Promise<string[]> {
  const response = await (await world.server).request(key);
  const listed = new Set(((await response.json()) as { id: number }[]).map(({ id }) => id));
  return Array.from({ length: ORDERS }, (_, n) => n + 1).flatMap((id) => {
    const cancelled = world.cancelled.get(`${LIST}/${id}`) ?? 0;
    // An order beyond those that clients cancel, or one that has shipped, is never gone.
    const isKept = id > CANCELLABLE || id % SHIPPED_EVERY === 0;
    if (listed.has(id) ? cancelled === 0 : cancelled <= 1 && !isKept) return [];
    const state = listed.has(id) ? "listed" : "gone";
    return [`order ${id} was cancelled ${cancelled} times and is ${state}`];
  });
}
