import { AbortError } from "p-retry";
import { retry } from "../retry.ts";
import type { Settings } from "../settings.ts";
import { OtherVersionError } from "../verify/answer.ts";
import { countResults, requireHealth, verifyStore } from "../verify/verify.ts";

/** How long a trial waits until a new version or address responds. Tests set a shorter time. */
export const TRIAL_PATIENCE = { minTimeout: 2_000, factor: 1, maxRetryTime: 60_000 };
/** The number of requests that must reach a version: Cloudflare's servers adopt it one by one. */
const CONFIRMATIONS = 5;

/** `hasTraffic`: ordinary requests reach this version, without an override header. */
type TrialOptions = Pick<Settings, "env" | "worker"> &
  Readonly<{ url: string; version: string; hasTraffic: boolean }> &
  Readonly<{ triedCredentials: Set<string>; signal: AbortSignal }>;

/**
 * Verifies the promises of one version of the deployed service. On production, skips promises whose
 * verification would use up a rate limit or place orders.
 *
 * @returns the numbers of promises kept, broken and not tried.
 * @throws an Error that names the broken promises, or says that the version does not respond.
 */
export async function tryVersion({ env, worker, hasTraffic, ...trial }: TrialOptions) {
  const headers = { "Cloudflare-Workers-Version-Overrides": `${worker}="${trial.version}"` };
  const isReadOnly = env === "production";
  const how = { store: { env }, isReadOnly, isWriting: !isReadOnly };
  const attempt = async () => {
    // Ordinary requests must reach a version that has traffic, so they omit the header.
    const ordinary = hasTraffic ? trial : { ...trial, headers };
    await Promise.all(Array.from({ length: CONFIRMATIONS }, () => requireHealth(ordinary)));
    return verifyStore({ ...trial, ...how, headers }).catch((error: Error) => {
      // `verifyStore` throws an error whose `cause` is its first failure.
      const isLate = error.cause instanceof OtherVersionError;
      throw isLate ? error : new AbortError(error);
    });
  };
  const patience = { ...TRIAL_PATIENCE, retries: Infinity, signal: trial.signal };
  const results = await retry(attempt, patience);
  const broken = results.filter(({ result }) => result === "broken");
  if (broken.length === 0) return countResults(results);
  const lines = broken.map(({ promise, reason }) => `\n${promise}: ${reason}`);
  throw new Error(`${trial.url} breaks its promises:${lines.join("")}`);
}
