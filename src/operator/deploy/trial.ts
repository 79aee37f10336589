import pRetry from "p-retry";
import type { RemoteEnvironment } from "../environment.ts";
import { OtherVersionError } from "../verify/caller.ts";
import { verifyStore } from "../verify/verify-store.ts";
import { print } from "./steps.ts";

const PAUSE_MS = 2_000;
const REQUEST_TIMEOUT_MS = 10_000;
/**
 * The number of simultaneous requests that must all reach the new version. One request is not
 * enough, because the version starts on one machine after another.
 */
const CONFIRMATIONS = 5;

/** The version of the deployed service that a trial verifies. */
export interface TrialTarget {
  readonly env: RemoteEnvironment;
  readonly address: string;
  readonly worker: string;
  readonly version: string;
  /** True if the version receives all traffic, so requests without the version header reach it. */
  readonly hasTraffic: boolean;
}

interface TrialOptions {
  /** How long to wait until the address responds from this version, in seconds. */
  readonly patience: number;
  /** Aborts the trial. The API key that the trial uses is revoked nevertheless. */
  readonly signal: AbortSignal;
}

/**
 * Verifies the documented promises on one version of the deployed service, even if the version
 * receives no traffic yet. On production, skips promises whose verification would use up a rate
 * limit or place orders.
 *
 * @throws an Error that names the broken promises, or says that the version does not respond.
 */
export async function tryVersion(
  target: TrialTarget,
  { patience, signal }: TrialOptions,
): Promise<void> {
  const { env, address, version } = target;
  const isProduction = env === "production";
  const { isKept, promises } = await pRetry(
    async () => {
      await expectHealthyVersion(target);
      return verifyStore({
        url: address,
        headers: overrides(target),
        version,
        store: { env },
        isReadOnly: isProduction,
        isWriting: !isProduction,
        signal,
      });
    },
    {
      retries: Number.POSITIVE_INFINITY,
      minTimeout: PAUSE_MS,
      factor: 1,
      maxRetryTime: patience * 1_000,
      signal,
      shouldRetry: ({ error }) => error instanceof NotReadyError || isOtherVersion(error),
    },
  );
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

/** Thrown while the version does not respond yet. */
class NotReadyError extends Error {
  override readonly name = "NotReadyError";
}

function isOtherVersion(error: Error): boolean {
  return error instanceof OtherVersionError || error.cause instanceof OtherVersionError;
}

/**
 * Expects healthy responses that name the version in `X-Version`. Cloudflare may silently ignore
 * the header that selects a version, for example while the version is new.
 */
async function expectHealthyVersion(target: TrialTarget): Promise<void> {
  const { address, version, hasTraffic } = target;
  const url = `${address}/healthz`;
  // A request with the header that selects a version would not show whether normal traffic reaches
  // the version.
  const headers = { "X-Version": version, ...(!hasTraffic && overrides(target)) };
  await Promise.all(
    Array.from({ length: CONFIRMATIONS }, async () => {
      const signal = AbortSignal.timeout(REQUEST_TIMEOUT_MS);
      const response = await fetch(url, { headers, signal }).catch((error: Error) => {
        throw new NotReadyError(`${address} does not answer: ${error.message}`, { cause: error });
      });
      const body = await response.text();
      if (response.status !== 200) {
        throw new NotReadyError(`${url} answers ${response.status}: ${body.slice(0, 200)}`);
      }
      if (response.headers.get("X-Version") !== version) {
        throw new NotReadyError(`${address} does not answer from version ${version}`);
      }
    }),
  );
}

function overrides({ worker, version }: TrialTarget): Record<string, string> {
  return { "Cloudflare-Workers-Version-Overrides": `${worker}="${version}"` };
}
