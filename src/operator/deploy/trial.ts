import pRetry from "p-retry";
import { openRemoteDatabase } from "../database/remote.ts";
import { countResults, OtherVersionError } from "../verify/service-promise.ts";
import { print, type RollOut } from "./steps.ts";

const PAUSE_MS = 2_000;
const REQUEST_TIMEOUT_MS = 10_000;
/** The number of requests that must reach a version: Cloudflare's servers adopt it one by one. */
const CONFIRMATIONS = 5;

/**
 * Verifies the promises of one version of the deployed service. On production, skips promises whose
 * verification would use up a rate limit or place orders.
 *
 * @param hasTraffic true if ordinary requests reach this version, without an override header.
 * @throws an Error that names the broken promises, or says that the version does not respond.
 */
export async function tryVersion(
  { env, settings: { worker }, patienceMs, triedCredentials, signal }: RollOut,
  address: string,
  version: string,
  hasTraffic: boolean,
): Promise<void> {
  const overrides = { "Cloudflare-Workers-Version-Overrides": `${worker}="${version}"` };
  // If the version has traffic, omit this header, to test that ordinary requests reach the version.
  const healthHeaders = { "X-Version": version, ...(!hasTraffic && overrides) };
  const expectHealthy = () => expectHealthyVersion(address, version, healthHeaders);
  const isProduction = env === "production";
  const { verifyStore } = await import("../verify/verify.ts");
  let isReady = false;
  const attempt = async () => {
    isReady = false;
    await Promise.all(Array.from({ length: CONFIRMATIONS }, expectHealthy));
    isReady = true;
    return verifyStore({
      url: address,
      headers: overrides,
      version,
      useDatabase: async (name, work) => work(await openRemoteDatabase({ env, name })),
      isReadOnly: isProduction,
      isWriting: !isProduction,
      triedCredentials,
      signal,
    });
  };
  const { isKept, promises } = await pRetry(attempt, {
    retries: Number.POSITIVE_INFINITY,
    minTimeout: PAUSE_MS,
    factor: 1,
    maxRetryTime: patienceMs,
    signal,
    // `verifyStore` throws an error whose `cause` is its first failure.
    shouldRetry: ({ error }) =>
      !isReady || [error, error.cause].some((cause) => cause instanceof OtherVersionError),
  });
  print(`  ${countResults(promises)}`);
  if (isKept) return;
  const broken = promises
    .filter(({ result }) => result === "broken")
    .map(({ promise, reason, requestId }) => `${promise}: ${reason} (request ${requestId})`);
  throw new Error(`${address} breaks its promises:\n${broken.join("\n")}`);
}

/** Throws unless this version returns 200: Cloudflare may send the request to another version. */
async function expectHealthyVersion(
  address: string,
  version: string,
  headers: Readonly<Record<string, string>>,
): Promise<void> {
  const url = `${address}/healthz`;
  const signal = AbortSignal.timeout(REQUEST_TIMEOUT_MS);
  const response = await fetch(url, { headers, signal }).catch((error: Error) => {
    throw new Error(`${address} does not answer: ${error.message}`, { cause: error });
  });
  const body = await response.text();
  if (response.status !== 200) {
    throw new Error(`${url} answers ${response.status}: ${body.slice(0, 200)}`);
  }
  if (response.headers.get("X-Version") !== version) {
    throw new Error(`${address} does not answer from version ${version}`);
  }
}
