import { generateSecret } from "../../src/operator/keys/key-changes.ts";
import type { Answer } from "./answer.ts";
import type { Subject } from "./referee.ts";
import type { Ask, World } from "./world.ts";

/** The wait after a request without a valid response, in milliseconds. */
const RECONNECT_MS = 300;

interface Holder {
  readonly key: string;
  readonly subject: Subject;
}

export type Play = (world: World, holder: Holder) => Promise<void>;

function anyAsk({ draw }: World, key: string): Ask {
  const chance = draw();
  if (chance < 0.02) return { key };
  if (chance < 0.2) {
    return { key, method: "DELETE", path: `/v1/store/orders/${1 + Math.floor(draw() * 1_000)}` };
  }
  if (chance < 0.9) return { key, method: "HEAD" };
  return chance < 0.95 ? { key, method: "POST" } : { key, path: "/v1/none" };
}

/** Sends random requests. `waitMs` returns the milliseconds to wait after each response. */
async function send(
  world: World,
  { key, subject }: Holder,
  waitMs: (answer: Answer | null) => number,
): Promise<void> {
  for (let sent = 0; world.goesOn(sent); sent++) {
    const pauseMs = waitMs(await world.send(subject, anyAsk(world, key)));
    // Sends no further request, because the soak ends before the wait is over.
    if (Date.now() + pauseMs >= world.endMs) return;
    await world.wait(pauseMs);
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

/** Ignores `Retry-After`: waits 0.1 s after a refusal, and doubles each further wait up to 5 s. */
export const backingOff: Play = (world, holder) => {
  let waitMs = 0;
  return send(world, holder, (answer) => {
    const isRefused = answer === null || answer.status === 429;
    waitMs = isRefused ? Math.min(5_000, Math.max(100, waitMs * 2)) : 0;
    return waitMs || 50;
  });
};

/** Sends requests, and waits equally long after every response, even after a refusal. */
export function hammering(paceMs: number): Play {
  return (world, holder) =>
    send(world, holder, (answer) => (answer === null ? RECONNECT_MS : paceMs));
}

/**
 * Sends invented keys, malformed keys and no key from one address. The service counts failures in
 * memory, so a kill resets the count. A new `Subject` records the requests after each kill.
 */
export async function guessing(world: World, address: string): Promise<void> {
  let { kills } = world.service;
  let subject = world.subject(`guessing from ${address}`, false);
  for (let sent = 0; world.goesOn(sent); sent++) {
    await world.service.url;
    if (world.service.kills !== kills) {
      ({ kills } = world.service);
      subject = world.subject(`guessing from ${address}`, false);
    }
    const chance = world.draw();
    const key =
      chance < 0.4 ? { key: generateSecret() } : chance < 0.7 ? { key: "sord_guess" } : {};
    const answer: Answer | null = await world.send(subject, { ...key, address });
    await world.wait(answer === null ? RECONNECT_MS : 100 + world.draw() * 200);
  }
}

/** Requests lists, reads nothing of them, and closes each connection after at most `mostMs`. */
export function leaving(mostMs: number, paceMs: number): Play {
  return async (world, { key, subject }) => {
    for (let sent = 0; world.goesOn(sent); sent++) {
      void world.leave(subject, key, world.draw() * mostMs);
      await world.wait(paceMs);
    }
  };
}
