import type { Plan } from "../../../rate-limit/plans.ts";
import type { Assumptions } from "../assumptions.ts";
import { ClientDay, DAY_MS, HOUR_MS, type KeyDay } from "./client-day.ts";
import { KeyLimiter } from "./key-limiter.ts";
import { KeyLookUps } from "./key-look-ups.ts";
import type { Random } from "./random.ts";

/** Lets the client of one key work for a day; one that has run wild begins a loop at some time. */
export function simulateKeyDay(
  { plan, isRunaway }: { readonly plan: Plan; readonly isRunaway: boolean },
  assumptions: Assumptions,
  random: Random,
): KeyDay {
  const { median, sigma } = assumptions.session.pauseMs;
  const { bans, apiKeyFreshMs } = assumptions.configuration;
  const client = new ClientDay(assumptions, {
    limiter: new KeyLimiter(assumptions.plans[plan].limits, bans),
    lookUps: new KeyLookUps(assumptions.network.isolates, apiKeyFreshMs, random),
    behaviour: isRunaway ? "hammers" : random.pick(assumptions.refused),
    pauseMs: isRunaway ? 1_000 / assumptions.hammer.perSecond : random.logNormal(median, sigma),
    isConditional: random.chance(assumptions.conditionalShare),
    random,
  });
  const sessions = drawSessions(plan, assumptions, random);
  if (isRunaway) sessions.push(loop(assumptions, random));
  for (const { startMs, requests } of sessions.toSorted((a, b) => a.startMs - b.startMs)) {
    client.work(startMs, requests);
  }
  return client.day();
}

interface Session {
  readonly startMs: number;
  readonly requests: number;
}

function drawSessions(plan: Plan, assumptions: Assumptions, random: Random): Session[] {
  const { requestsPerDay } = assumptions.plans[plan];
  const { median, sigma } = assumptions.session.requests;
  const sessions: Session[] = [];
  let left = random.logNormal(requestsPerDay.median, requestsPerDay.sigma);
  while (left > 0) {
    const requests = Math.ceil(Math.min(left, random.logNormal(median, sigma)));
    sessions.push({ startMs: drawStart(assumptions, random), requests });
    left -= requests;
  }
  return sessions;
}

function loop(assumptions: Assumptions, random: Random): Session {
  const { perSecond, seconds } = assumptions.hammer;
  return { startMs: drawStart(assumptions, random), requests: Math.ceil(perSecond * seconds) };
}

/** A time of the day at which a session begins, in milliseconds. */
function drawStart({ dailyCycle: { amplitude, peakHour } }: Assumptions, random: Random): number {
  for (;;) {
    const ms = random.uniform() * DAY_MS;
    const angle = 2 * Math.PI * ((ms / HOUR_MS - peakHour) / 24);
    if (random.uniform() * (1 + amplitude) < 1 + amplitude * Math.cos(angle)) return ms;
  }
}
