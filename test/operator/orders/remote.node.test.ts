import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, it } from "vitest";
import { ordersProgram } from "../../../src/operator/orders/program.ts";
import { INT64_MAX, INT64_MIN } from "../../../src/rules/int64.ts";
import { testFolder } from "../../support/test-folder.ts";
import { useFakeCloudflare } from "../deploy/fake-cloudflare.ts";
import { atEveryCall } from "../deploy/faults.ts";
import { ApiError } from "../deploy/route.ts";
import { failure, runInProcess, withoutProgress } from "../commands.ts";
import { setImportSizes } from "./import-sizes.ts";

const NAME = "store-orders-staging-orders";
const WRITE = `write to ${NAME}`;
const cloudflare = useFakeCloudflare("staging");

/** The number of orders that an import sends in two parts. */
const TWO_PARTS = 150;

/** Orders as lines of NDJSON. Their numbers are long, so that few orders fill a part. */
const LINES = Array.from({ length: TWO_PARTS }, (_, index) => {
  const fields = `"petId":${INT64_MIN},"quantity":${INT64_MIN},"shipDate":"2026-11-20T08:30:00.000Z"`;
  return `{"id":${INT64_MAX - BigInt(index)},${fields},"complete":true,"status":"pending"}\n`;
});

setImportSizes({ partBytes: 10_000 });
beforeEach(() => {
  cloudflare.changes.length = 0;
  cloudflare.interfere = () => {};
  sqlite().exec("DELETE FROM order_import_parts; DELETE FROM orders");
});

const sqlite = () => cloudflare.d1.find(NAME).sqlite;
const rows = (query: string) => sqlite().prepare(query).all();
const count = (table: string) => rows(`SELECT count(*) AS count FROM ${table}`)[0]?.["count"];
/** The numbers of placed orders, and of parts that wait to be placed. */
const state = () => [count("orders"), count("order_import_parts")];

async function importing(input: string, ...options: readonly string[]) {
  const line = ["import", "-", "--env", "staging", "--json", ...options];
  const outcome = await runInProcess(ordersProgram(), line, input);
  return { ...outcome, stderr: withoutProgress(outcome) };
}

const importParts = (lines = LINES) => importing(lines.join(""), "--yes");
const IMPORTED = expect.stringContaining(`{"imported":${TWO_PARTS},`);

it.each([
  ["in one batch", 2],
  ["through wrangler", 1],
])(
  "an import into a deployed store places all or none %s, whatever happens at any call, and repeating ends it",
  async (_, partsPerBatch) => {
    setImportSizes({ partsPerBatch });
    const importAnew = () => {
      sqlite().exec("DELETE FROM order_import_parts; DELETE FROM orders");
      return importParts();
    };
    await atEveryCall(cloudflare, importAnew, async ({ status, stderr }, label) => {
      const isPlaced = count("orders") === TWO_PARTS;
      expect(state(), label).toEqual(isPlaced ? [TWO_PARTS, 0] : [0, expect.any(Number)]);
      if (status === 0) expect(isPlaced, label).toBe(true);
      else if (!stderr.includes("the file was read")) {
        expect(stderr, label).toMatch(/run the same command again\n$/);
      }
      expect(await importParts(), label).toMatchObject({ status: 0, stdout: IMPORTED });
      expect(state(), label).toEqual([TWO_PARTS, 0]);
    });
  },
);

it("an import into a deployed store sends only missing parts when it is repeated, all of them if a line differs, and places many parts in a file", async () => {
  let sent = 0;
  cloudflare.interfere = ({ body }) => {
    if (!body.includes('insert into \\"order_import_parts\\"') || (sent += 1) < 2) return;
    throw new ApiError(403, 10_000, "Authentication error");
  };
  expect(await importParts()).toEqual(failure("run the same command again"));
  // Housekeeping deletes parts by age, so the part must have the time of its creation.
  const parts = rows("SELECT created_at FROM order_import_parts");
  expect(parts).toEqual([{ created_at: expect.closeTo(Date.now(), -5) }]);
  expect(count("orders")).toBe(0);
  cloudflare.interfere = () => {};
  const byFile = [WRITE, WRITE, `import into ${NAME}`];
  const different = (at: number) => LINES.with(at, LINES.at(at)!.replace("true", "false"));
  for (const [lines, partsPerBatch, changes] of [
    [different(0), 1, byFile],
    [different(-1), 1, byFile],
    [LINES, 2, [WRITE, WRITE]],
  ] as const) {
    sqlite().exec("DELETE FROM orders");
    cloudflare.changes.length = 0;
    setImportSizes({ partsPerBatch });
    const stderr = `Placing ${TWO_PARTS} orders. Until this ends, staging lists and cancels none.\n`;
    expect(await importParts(lines)).toEqual({ status: 0, stdout: IMPORTED, stderr });
    expect(cloudflare.changes).toEqual(changes);
    const exported = await runInProcess(ordersProgram(), ["export", "--env", "staging"]);
    expect(exported.stdout).toBe(lines.toReversed().join(""));
  }
});

// This test comes last: its shipped orders cannot be deleted and would change earlier counts.
it("an import asks before it places orders in a deployed store, with counts and the account", async () => {
  sqlite().exec("INSERT INTO orders (id, status) VALUES (1, 'pending'), (3, 'shipped')");
  const stored = () => rows("SELECT id, pet_id, status FROM orders");
  const before = stored();
  const changes = '{"id":1,"status":"shipped"}\n{"id":3,"petId":1,"status":"shipped"}\n{"id":4}';
  const file = join(testFolder(), "changes");
  writeFileSync(file, changes);
  const answer = (text: string, isTerminal = true) =>
    runInProcess(ordersProgram(), ["import", file, "--env", "staging"], text, { isTerminal });

  const counts = '"wouldImport":3,"new":1,"replaced":1,"shipped":1,"unchanged":0';
  const checked = await importing(changes, "--dry-run");
  expect(checked).toEqual({ status: 0, stdout: `{${counts}}\n`, stderr: "" });
  const bad = '{"id":4}\n{"id":3}';
  const refused = failure("line 2: order 3 has shipped, which cannot be turned back");
  expect(await importing(bad, "--dry-run")).toEqual(refused);
  expect(cloudflare.changes).toEqual([]);
  expect(await importing(bad, "--yes")).toEqual(refused);
  const counted = "1 new, 1 replaced, 1 shipped, 0 unchanged";
  const asks = `This imports 3 orders: ${counted}, into staging.\nA shipped order cannot become pending again.\nThe account is Pets (0123456789abcdef0123456789abcdef).\n`;
  expect(await answer("", false)).toEqual(failure(asks));
  expect(await answer("no\n")).toEqual(failure("error: not confirmed: nothing was changed\n"));
  expect(stored()).toEqual(before);
  const stdout = `Imported 3 orders: ${counted}.\n`;
  expect(await answer("staging\n")).toMatchObject({ status: 0, stdout });
  expect(stored()).toEqual([
    { id: 1, pet_id: null, status: "shipped" },
    { id: 3, pet_id: 1, status: "shipped" },
    { id: 4, pet_id: null, status: "pending" },
  ]);
});
