import { AbortError } from "p-retry";
import { retry } from "../retry.ts";
import type { Settings } from "../settings.ts";
import { OtherVersionError } from "../verify/answer.ts";
import { countResults, requireHealth, verifyStore } from "../verify/verify.ts";

const PAUSE_MS = 2_000;
/** The number of requests that must reach a version: Cloudflare's servers adopt it one by one. */
const CONFIRMATIONS = 5;

/** What all trials of a deployment share. `patienceMs`: until a new version or address responds. */
export type TrialOptions = Pick<Settings, "env" | "worker"> &
  Readonly<{ patienceMs: number; triedCredentials: Set<string>; signal: AbortSignal }>;

/**
 * Verifies the promises of one version of the deployed service. On production, skips promises whose
 * verification would use up a rate limit or place orders.
 *
 * @param hasTraffic true if ordinary requests reach this version, without an override header.
 * @returns the numbers of promises kept, broken and not tried.
 * @throws an Error that names the broken promises, or says that the version does not respond.
 */
export async function tryVersion(
  { env, worker, patienceMs, triedCredentials, signal }: TrialOptions,
  url: string,
  version: string,
  hasTraffic: boolean,
): Promise<string> {
  const headers = { "Cloudflare-Workers-Version-Overrides": `${worker}="${version}"` };
  const service = { url, version, signal, headers };
  const isReadOnly = env === "production";
  const attempt = async () => {
    // Ordinary requests must reach a version that has traffic, so they omit the header.
    const ordinary = { ...service, ...(hasTraffic && { headers: {} }) };
    await Promise.all(Array.from({ length: CONFIRMATIONS }, () => requireHealth(ordinary)));
    const how = { store: { env }, isReadOnly, isWriting: !isReadOnly, triedCredentials };
    return verifyStore({ ...service, ...how }).catch((error: Error) => {
      // `verifyStore` throws an error whose `cause` is its first failure.
      const isLate = error.cause instanceof OtherVersionError;
      throw isLate ? error : new AbortError(error);
    });
  };
  const pauses = { minTimeout: PAUSE_MS, factor: 1, maxRetryTime: patienceMs };
  const results = await retry(attempt, { ...pauses, retries: Infinity, signal });
  const broken = results.filter(({ result }) => result === "broken");
  if (broken.length === 0) return countResults(results);
  const lines = broken.map(({ promise, reason }) => `\n${promise}: ${reason}`);
  throw new Error(`${url} breaks its promises:${lines.join("")}`);
}
