import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import type { Command } from "commander";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { keysProgram } from "../../../src/operator/keys/program.ts";
import { importIdOf } from "../../../src/operator/orders/staging.ts";
import { parseOrder } from "../../../src/operator/orders/parse-order.ts";
import { ordersProgram } from "../../../src/operator/orders/program.ts";
import { SortedOrders } from "../../../src/operator/orders/sorted-orders.ts";
import { timeTravelProgram } from "../../../src/operator/time-travel/program.ts";
import { SYSTEM_CLOCK } from "../../../src/operator/verify/service-promise.ts";
import { verifyProgram } from "../../../src/operator/verify/program.ts";
import * as verifying from "../../../src/operator/verify/verify.ts";
import * as storeVerifying from "../../../src/operator/verify/verify-store.ts";
import * as wrangler from "../../../src/operator/wrangler.ts";
import { generateSecret } from "../../../src/operator/key-store/secret.ts";
import { hashSecret } from "../../../src/worker/api-keys/secret.ts";
import { runInProcess } from "../in-process.ts";
import { useFakeCloudflare } from "./fake-cloudflare.ts";
import { FakeVersions } from "./fake-versions.ts";
import { runFakeWrangler } from "./fake-wrangler.ts";

const PROGRAMS: Readonly<Record<string, () => Command>> = {
  keys: keysProgram,
  orders: ordersProgram,
  "time-travel": timeTravelProgram,
  verify: () => verifyProgram({ clock: SYSTEM_CLOCK, send: async () => new Response() }),
};
/** Matches commands that other tests run: `test/process`, `deploy.node.test.ts`. */
const TYPED_ELSEWHERE = /^npm start\b|npm run deploy\b/;
/** Matches a command and its input file, without a pipe or a comment. */
const LINE = /^npm run (?:-s )?(?<name>[\w-]+)(?: -- (?<args>[^#|<]*))?(?:< (?<input>\S+))?/;

const ID = "key_petspetspetspets";
const ORDER = '{"id":1001,"status":"pending"}';
const KEPT: verifying.Verification = { isKept: true, promises: [] };
const key = generateSecret();

const cloudflare = useFakeCloudflare("staging", "production");
const folder = mkdtempSync(join(tmpdir(), "store-orders-documents-"));
beforeAll(() => {
  vi.spyOn(wrangler, "runWrangler").mockImplementation(runFakeWrangler);
  // Mocked, because the tests of `verify` run it on the real service.
  vi.spyOn(verifying, "verify").mockResolvedValue(KEPT);
  vi.spyOn(storeVerifying, "verifyStore").mockResolvedValue(KEPT);
  writeFileSync(join(folder, "key.txt"), `${key}\n`);
  writeFileSync(join(folder, "orders.ndjson"), `${ORDER}\n`);
  writeFileSync(join(folder, "orders.ndjson.gz"), gzipSync(`${ORDER}\n`));
  for (const env of ["staging", "production"]) {
    const worker = { bindings: [], migrationTag: "v1", versions: new FakeVersions() };
    cloudflare.workers.scripts.set(`store-orders-${env}`, worker);
  }
  cloudflare.d1.find("store-orders-production-keys").sqlite.exec(`
    INSERT INTO api_keys (id, hash, last_four, name, plan, created_at)
    VALUES ('${ID}', '${hashSecret(key)}', 'wxyz', 'Pet shop', 'pro', 0)`);
});
afterAll(() => rmSync(folder, { recursive: true }));

/** Stores a part of an import, as an interrupted import does. */
function breakOffImport(): void {
  using orders = new SortedOrders();
  orders.add(1, parseOrder(ORDER));
  cloudflare.d1
    .find("store-orders-production-orders")
    .sqlite.prepare("INSERT OR IGNORE INTO order_import_parts VALUES (?, 0, ?, ?)")
    .run(importIdOf(orders), Date.now(), `[${[...orders.texts()].join()}]`);
}

/**
 * Replaces the examples in `args` by values that exist in the test. Adds `--env` and `--yes` to
 * commands that need them.
 */
function typedArguments(name: string, args: string): string[] {
  const bookmark = cloudflare.d1.find("store-orders-production-orders").bookmark();
  const time = cloudflare.d1.find("store-orders-production-orders").timeOf(bookmark);
  const words = [...args.trim().matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, word]) => {
    if (word === undefined) return quoted ?? "";
    if (word === "ID") return ID;
    if (name === "time-travel" && /^\d{4}-/.test(word)) return time;
    return /^[\w.-]+\.(?:ndjson|ndjson\.gz|html)$/.test(word) ? join(folder, word) : word;
  });
  const isOnStore = ["keys", "orders"].includes(name);
  if (isOnStore && !words.includes("--env")) words.push("--env", "production");
  const isAsked = ["revoke", "reset", "purge", "restore"].includes(words[0] ?? "");
  return isAsked ? [...words, "--yes"] : words;
}

const linesOf = (page: string) =>
  [...readFileSync(page, "utf8").matchAll(/^```sh\n([^]*?)^```$/gm)]
    .flatMap(([, block = ""]) => block.trim().split("\n"))
    .filter((line) => !TYPED_ELSEWHERE.test(line));

/**
 * Sorts the commands `keys rotate` and then `keys revoke` to the end. A rotation replaces the
 * secret, whose last characters `keys find` searches for, and a revoked key cannot be rotated.
 */
const byEnd = (line: string) => [/ rotate /, / revoke /].findIndex((end) => end.test(line));

it.each([["docs/operating.md", 30]])("every command of %s succeeds", async (page, atLeast) => {
  const lines = linesOf(page).toSorted((one, other) => byEnd(one) - byEnd(other));
  expect(lines.length).toBeGreaterThanOrEqual(atLeast);
  for (const line of lines) {
    const { name = "", args = "", input } = LINE.exec(line)?.groups ?? {};
    const program = PROGRAMS[name];
    if (program === undefined) throw new Error(`no test types this: ${line}`);
    if (args.includes("--resume")) breakOffImport();
    const typed = typedArguments(name, args);
    const stdin = input === undefined ? "" : readFileSync(join(folder, input), "utf8");
    const { status, stdout, stderr } = await runInProcess(program(), typed, stdin);
    expect(status, `${line}\n${stderr}`).toBe(0);
    expect(stdout + stderr, line).not.toBe("");
  }
});
