import type { Answer, Subject } from "./referee.ts";
import type { Ask, World } from "./world.ts";

/** The wait after a request without a valid response, in milliseconds. */
const RECONNECT_MS = 300;

/** Clients cancel only orders with ids up to this one. */
export const CANCELLABLE = 1_000;

interface Holder {
  readonly key: string;
  readonly subject: Subject;
}

export type Play = (world: World, holder: Holder) => Promise<void>;

function anyAsk({ draw }: World, key: string): Ask {
  const chance = draw();
  if (chance < 0.02) return { key };
  if (chance < 0.95) return chance < 0.7 ? { key, path: "/v1/none" } : { key, method: "POST" };
  return {
    key,
    method: "DELETE",
    path: `/v1/store/orders/${1 + Math.floor(draw() * CANCELLABLE)}`,
  };
}

/** Sends random requests. `waitMs` returns the milliseconds to wait after each response. */
async function send(
  world: World,
  { key, subject }: Holder,
  waitMs: (answer: Answer | null) => number,
): Promise<void> {
  while (!world.isOver) {
    await world.wait(waitMs(await world.send(subject, anyAsk(world, key))));
  }
}

/** Waits exactly as long as `Retry-After`. A client with its own key must then be admitted. */
export function patient(paceMs: number, isAlone: boolean): Play {
  return (world, holder) => {
    let hasWaited = false;
    return send(world, holder, (answer) => {
      const seconds = answer?.retryAfterSeconds ?? null;
      const isWrong = isAlone && hasWaited && seconds !== null;
      if (isWrong) world.wrong.push(`${holder.subject.name} had waited for Retry-After`);
      hasWaited = seconds !== null;
      if (seconds !== null) return seconds * 1_000;
      return answer === null ? RECONNECT_MS : paceMs * (0.5 + world.draw());
    });
  };
}

/** Sends requests, and waits equally long after every response, even after a refusal. */
export function hammering(paceMs: number): Play {
  return (world, holder) =>
    send(world, holder, (answer) => (answer === null ? RECONNECT_MS : paceMs));
}

/** Requests lists, reads nothing of them, and closes each connection after at most `mostMs`. */
export function leaving(mostMs: number, paceMs: number): Play {
  return async (world, { key, subject }) => {
    while (!world.isOver) {
      void world.leave(subject, key, world.draw() * mostMs);
      await world.wait(paceMs);
    }
  };
}
