import pRetry from "p-retry";
import { generateSecret } from "../../worker/api-keys/secret.ts";

const PAUSE_MS = 2_000;
const REQUEST_TIMEOUT_MS = 10_000;

/** A version of the deployed service. */
export interface TrialTarget {
  readonly address: string;
  readonly worker: string;
  readonly version: string;
}

/**
 * Requests the orders of the deployed service with a well-formed secret that no key has. A 401
 * shows that the Worker and its migrated keys database work together.
 *
 * @param patienceSeconds how long a new address or version may fail to answer.
 * @throws an Error with the last answer if it is not the expected one.
 */
export async function tryVersion(target: TrialTarget, patienceSeconds: number): Promise<void> {
  await pRetry(() => expectUnauthorized(target), {
    retries: Number.POSITIVE_INFINITY,
    minTimeout: PAUSE_MS,
    factor: 1,
    maxRetryTime: patienceSeconds * 1_000,
  });
}

async function expectUnauthorized({ address, worker, version }: TrialTarget): Promise<void> {
  const url = new URL("/v1/store/orders", address);
  const headers = {
    Authorization: `Bearer ${generateSecret()}`,
    "Cloudflare-Workers-Version-Overrides": `${worker}="${version}"`,
  };
  const signal = AbortSignal.timeout(REQUEST_TIMEOUT_MS);
  const response = await fetch(url, { headers, signal }).catch((error: Error) => {
    throw new Error(`${url.href} does not answer: ${error.message}`, { cause: error });
  });
  const body = await response.text();
  if (response.status !== 401 || !body.includes('"unauthorized"')) {
    throw new Error(`${url.href} answers ${response.status} instead of 401: ${body.slice(0, 200)}`);
  }
}
