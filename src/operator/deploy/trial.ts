import pRetry, { AbortError } from "p-retry";
import { openRemoteDatabase } from "../database/remote.ts";
import type { Settings } from "../settings.ts";
import { countResults, OtherVersionError } from "../verify/service-promise.ts";
import { verifyStore } from "../verify/verify.ts";

const PAUSE_MS = 2_000;
const REQUEST_TIMEOUT_MS = 10_000;
/** The number of requests that must reach a version: Cloudflare's servers adopt it one by one. */
const CONFIRMATIONS = 5;

/** The data that all trials of a deployment share. */
export interface TrialOptions extends Pick<Settings, "env" | "worker"> {
  /** How long to wait until a new version or address responds. */
  readonly patienceMs: number;
  /** The promises about bad credentials that earlier trials of this deployment have tried. */
  readonly triedCredentials: Set<string>;
  readonly signal: AbortSignal;
}

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
  address: string,
  version: string,
  hasTraffic: boolean,
): Promise<string> {
  const overrides = { "Cloudflare-Workers-Version-Overrides": `${worker}="${version}"` };
  // Ordinary requests must reach a version that has traffic, so they omit the header.
  const headers = { "X-Version": version, ...(!hasTraffic && overrides) };
  const isProduction = env === "production";
  const expectHealthy = async () => {
    const init = { headers, signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS) };
    const response = await fetch(`${address}/healthz`, init).catch((cause: Error) => {
      throw new Error(`${address} does not answer: ${cause.message}`, { cause });
    });
    const body = await response.text();
    if (!response.ok) throw new Error(`${address}/healthz answers ${response.status}: ${body}`);
    // Cloudflare may send the request to another version.
    if (response.headers.get("X-Version") === version) return;
    throw new Error(`${address} does not answer from version ${version}`);
  };
  const attempt = async () => {
    await Promise.all(Array.from({ length: CONFIRMATIONS }, expectHealthy));
    const verifying = verifyStore({
      url: address,
      headers: overrides,
      version,
      useDatabase: async (name, work) => work(await openRemoteDatabase({ env, name })),
      isReadOnly: isProduction,
      isWriting: !isProduction,
      triedCredentials,
      signal,
    });
    return verifying.catch((error: Error) => {
      // `verifyStore` throws an error whose `cause` is its first failure.
      const isLate = [error, error.cause].some((each) => each instanceof OtherVersionError);
      throw isLate ? error : new AbortError(error);
    });
  };
  const { isKept, promises } = await pRetry(attempt, {
    retries: Number.POSITIVE_INFINITY,
    minTimeout: PAUSE_MS,
    factor: 1,
    maxRetryTime: patienceMs,
    signal,
  });
  if (isKept) return countResults(promises);
  const broken = promises
    .filter(({ result }) => result === "broken")
    .map(({ promise, reason, requestId }) => `${promise}: ${reason} (request ${requestId})`);
  throw new Error(`${address} breaks its promises:\n${broken.join("\n")}`);
}
