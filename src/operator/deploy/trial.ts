import pRetry from "p-retry";
import { generateSecret } from "../../worker/api-keys/secret.ts";
import type { RemoteEnvironment } from "../environment.ts";

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
}

/**
 * Tries a version of the deployed service from outside, whether it has traffic or not.
 *
 * @param patienceSeconds how long the address may fail to answer from this version.
 * @throws an Error with the answer that is not the expected one.
 */
export async function tryVersion(target: TrialTarget, patienceSeconds: number): Promise<void> {
  await pRetry(() => expectHealthyVersion(target), {
    retries: Number.POSITIVE_INFINITY,
    minTimeout: PAUSE_MS,
    factor: 1,
    maxRetryTime: patienceSeconds * 1_000,
  });
  await expectUnauthorized(target);
}

/**
 * Cloudflare ignores the header of a trial without a word, for example while a version is new. So
 * the service itself confirms the version.
 */
async function expectHealthyVersion(target: TrialTarget): Promise<void> {
  const path = `/healthz?version=${target.version}`;
  const answers = await Promise.all(
    Array.from({ length: CONFIRMATIONS }, () => request(target, path)),
  );
  for (const { response, body } of answers) {
    if (response.status !== 200) {
      throw new Error(`${target.address}/healthz answers ${response.status}: ${body}`);
    }
    if (response.headers.get("X-Version") !== target.version) {
      throw new Error(`${target.address} does not answer from version ${target.version}`);
    }
  }
}

/** Sends a well-formed secret that no key has. */
async function expectUnauthorized(target: TrialTarget): Promise<void> {
  const path = "/v1/store/orders";
  const { response, body } = await request(target, path, {
    Authorization: `Bearer ${generateSecret()}`,
  });
  if (response.status !== 401 || !body.includes('"unauthorized"')) {
    throw new Error(`${target.address}${path} answers ${response.status} instead of 401: ${body}`);
  }
}

async function request(
  { address, worker, version }: TrialTarget,
  path: string,
  headers: Readonly<Record<string, string>> = {},
) {
  const response = await fetch(`${address}${path}`, {
    headers: { ...headers, "Cloudflare-Workers-Version-Overrides": `${worker}="${version}"` },
    signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
  }).catch((error: Error) => {
    throw new Error(`${address} does not answer: ${error.message}`, { cause: error });
  });
  return { response, body: (await response.text()).slice(0, 200) };
}
