import pRetry from "p-retry";
import type { RemoteEnvironment } from "../environment.ts";
import { verifyStore } from "../verify/verify-store.ts";
import { print } from "./steps.ts";

const PAUSE_MS = 2_000;
const REQUEST_TIMEOUT_MS = 10_000;
/** A new version reaches the machines of a data centre one after another. */
const CONFIRMATIONS = 5;

/** A version of the deployed service. */
export interface TrialTarget {
  readonly env: RemoteEnvironment;
  readonly address: string;
  readonly worker: string;
  readonly version: string;
  /** True if all traffic goes to the version, so that requests reach it without asking for it. */
  readonly hasTraffic: boolean;
}

interface TrialOptions {
  /** How long the address may fail to answer from this version, in seconds. */
  readonly patience: number;
  /** Ends the trial. The key of the trial is revoked all the same. */
  readonly signal: AbortSignal;
}

/**
 * Tries what the documents promise on a version of the deployed service, whether it has traffic or
 * not. On production only what uses nothing up.
 *
 * @throws an Error that names the broken promises.
 */
export async function tryVersion(
  target: TrialTarget,
  { patience, signal }: TrialOptions,
): Promise<void> {
  await pRetry(() => expectHealthyVersion(target), {
    retries: Number.POSITIVE_INFINITY,
    minTimeout: PAUSE_MS,
    factor: 1,
    maxRetryTime: patience * 1_000,
    signal,
  });
  const { env, address } = target;
  const isProduction = env === "production";
  const { isKept, promises } = await verifyStore({
    url: address,
    headers: overrides(target),
    store: { env },
    isReadOnly: isProduction,
    isWriting: !isProduction,
    signal,
  });
  const count = (wanted: string) => promises.filter(({ result }) => result === wanted).length;
  print(
    `  ${count("kept")} promises kept, ${count("broken")} broken, ${count("untried")} not tried`,
  );
  if (isKept) return;
  const broken = promises
    .filter(({ result }) => result === "broken")
    .map(({ promise, reason, requestId }) => `${promise}: ${reason} (request ${requestId})`);
  throw new Error(`${address} breaks its promises:\n${broken.join("\n")}`);
}

/**
 * Cloudflare ignores the header of a trial without a word, for example while a version is new. So
 * the service itself confirms the version.
 */
async function expectHealthyVersion(target: TrialTarget): Promise<void> {
  const { address, version, hasTraffic } = target;
  const url = `${address}/healthz?version=${version}`;
  // With the header, an answer says nothing about where the traffic goes.
  const headers = hasTraffic ? {} : overrides(target);
  await Promise.all(
    Array.from({ length: CONFIRMATIONS }, async () => {
      const signal = AbortSignal.timeout(REQUEST_TIMEOUT_MS);
      const response = await fetch(url, { headers, signal }).catch((error: Error) => {
        throw new Error(`${address} does not answer: ${error.message}`, { cause: error });
      });
      const body = await response.text();
      if (response.status !== 200) {
        throw new Error(`${address}/healthz answers ${response.status}: ${body.slice(0, 200)}`);
      }
      if (response.headers.get("X-Version") !== version) {
        throw new Error(`${address} does not answer from version ${version}`);
      }
    }),
  );
}

function overrides({ worker, version }: TrialTarget): Record<string, string> {
  return { "Cloudflare-Workers-Version-Overrides": `${worker}="${version}"` };
}
