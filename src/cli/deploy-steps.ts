import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pRetry from "p-retry";
import { generateKey } from "../api-keys/key.ts";
import { isMissingDatabase } from "./database/remote-failure.ts";
import type { RemoteEnvironment } from "./environment.ts";
import { runWrangler } from "./wrangler.ts";

const SMOKE_TEST_PAUSE_MS = 2_000;
const REQUEST_TIMEOUT_MS = 10_000;

/** Builds the environment's Worker as a deployment would, and sends nothing. */
export async function checkBuild(environment: RemoteEnvironment): Promise<void> {
  await inTemporaryFolder((folder) =>
    runWrangler(["deploy", "--env", environment, "--dry-run", "--outdir", folder]),
  );
}

/** Whether the environment's database has been created, by an earlier deployment. */
export async function databaseExists(environment: RemoteEnvironment): Promise<boolean> {
  const probe = ["--remote", "--env", environment, "--json", "--command=SELECT 1"];
  try {
    await runWrangler(["d1", "execute", "DB", ...probe]);
    return true;
  } catch (error) {
    if (isMissingDatabase(error as Error)) return false;
    throw error;
  }
}

/** Applies the migrations that the environment's database lacks. */
export async function applyMigrations(environment: RemoteEnvironment): Promise<void> {
  await runWrangler(["d1", "migrations", "apply", "DB", "--remote", "--env", environment]);
}

/**
 * Uploads the Worker, which creates the database if there is none, and sends all traffic to it.
 *
 * @returns the addresses at which it answers.
 */
export async function deployWorker(environment: RemoteEnvironment): Promise<readonly string[]> {
  return inTemporaryFolder(async (folder) => {
    const report = join(folder, "report.ndjson");
    await runWrangler(["deploy", "--env", environment], {
      env: { WRANGLER_OUTPUT_FILE_PATH: report },
    });
    const entries = (await readFile(report, "utf8")).trim().split("\n");
    const deployed = entries
      .map((line) => JSON.parse(line) as { type: string; targets?: string[] })
      .find(({ type }) => type === "deploy");
    return deployed?.targets ?? [];
  });
}

/**
 * Asks the deployed service for its orders with a well-formed key that nobody has: a 401 shows that
 * the Worker, its objects and its migrated database work together.
 *
 * @param patienceSeconds for how long a new address may fail to answer.
 */
export async function smokeTest(address: string, patienceSeconds: number): Promise<void> {
  await pRetry(() => expectUnauthorized(address), {
    retries: Number.POSITIVE_INFINITY,
    minTimeout: SMOKE_TEST_PAUSE_MS,
    factor: 1,
    maxRetryTime: patienceSeconds * 1_000,
  });
}

async function expectUnauthorized(address: string): Promise<void> {
  const url = new URL("/v1/store/orders", address);
  const headers = { Authorization: `Bearer ${generateKey()}` };
  const signal = AbortSignal.timeout(REQUEST_TIMEOUT_MS);
  const response = await fetch(url, { headers, signal }).catch((error: Error) => {
    throw new Error(`${url.href} does not answer: ${error.message}`, { cause: error });
  });
  const body = await response.text();
  if (response.status !== 401 || !body.includes('"unauthorized"')) {
    throw new Error(`${url.href} answers ${response.status} instead of 401: ${body.slice(0, 200)}`);
  }
}

async function inTemporaryFolder<T>(use: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), "store-orders-deploy-"));
  try {
    return await use(folder);
  } finally {
    await rm(folder, { recursive: true });
  }
}
