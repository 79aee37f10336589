import { execFile } from "node:child_process";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, expect, test } from "vitest";
import { documentedClient } from "../../src/operator/build/site.ts";
import { PROJECT_ROOT } from "../../src/operator/wrangler.ts";
import type { Server } from "../support/server.ts";
import { AMPLE, createKeys } from "../process/store-content.ts";
import { ServedStore, SERVICE } from "../process/worker-server.ts";

const run = promisify(execFile);

/** A folder in the project, so that imports of npm packages resolve to the project's packages. */
const FOLDER = join(PROJECT_ROOT, "dist", "generated-client");
const DOCUMENT = join(PROJECT_ROOT, "dist", "site", "openapi.json");
const ADDRESS = "http://localhost:8787";

const COMPILER_OPTIONS = {
  target: "es2022",
  lib: ["es2022", "dom", "dom.iterable"],
  types: ["node"],
  strict: true,
  skipLibCheck: true,
  noEmit: true,
};

/** `JSON.parse` rounds both ids to the same number. */
const IDS = [2n ** 53n, 2n ** 53n + 1n] as const;
const SHIPPED_ID = 1004n;

const store = new ServedStore();
let server: Server;
let key: string;
/** The file `orders.ts` in docs/api.md. */
let orders = "";

beforeAll(async () => {
  ({ key } = await createKeys(store.path, { key: AMPLE }));
  const lines = [...IDS.map((id) => `{"id":${id}}`), `{"id":${SHIPPED_ID},"status":"shipped"}`];
  await store.ordersJson(["import", "-"], lines.join("\n"));
  [server] = await Promise.all([store.serve(SERVICE), generate()]);
});

/** Extracts the client's file from docs/api.md, and generates the client. */
async function generate(): Promise<void> {
  await rm(FOLDER, { recursive: true, force: true });
  await mkdir(FOLDER, { recursive: true });
  const [shell, file] = documentedClient();
  orders = file!.code;
  expect(orders).toMatch(/^\/\/ orders\.ts\n/);
  await writeFile(join(FOLDER, "orders.ts"), orders);
  const line = shell?.code.split("\n").at(-1)?.replace(`${ADDRESS}/openapi.json`, DOCUMENT);
  const [, program = "", ...args] = line?.split(" ") ?? [];
  // Runs the program without npx, which would take a second longer.
  const commands = join(import.meta.dirname, "node_modules", ".bin");
  await run(join(commands, program), args, { cwd: FOLDER });
}

test.each(["preserve", "nodenext"])("compiles under --strict, as module %s", async (module) => {
  const config = { compilerOptions: { ...COMPILER_OPTIONS, module }, include: ["orders.ts"] };
  await writeFile(join(FOLDER, "tsconfig.json"), JSON.stringify(config));
  const compiler = join(PROJECT_ROOT, "node_modules", ".bin", "tsc");
  const outcome = await run(compiler, ["-p", FOLDER, "--pretty", "false"]).catch((error) => error);
  expect(outcome.stdout).toBe("");
});

test("keeps every digit in Node, cancels one order, and throws the code of an error", async () => {
  await writeFile(join(FOLDER, "served.ts"), orders.replace(ADDRESS, server.url));
  const calls = `
    import { cancelOrder, listOrders } from "./served.ts";
    const listed = () => listOrders().then((orders) => orders.map(({ id }) => id));
    for (const call of [listed, () => cancelOrder(${IDS[1]}n), listed, () => cancelOrder(${SHIPPED_ID}n)])
      console.log(await call().catch((error) => error.message.replace(/: .*/, ":")));`;
  const said = async (secret: string) => {
    const options = { cwd: FOLDER, env: { ...process.env, STORE_KEY: secret } };
    return (await run(process.execPath, ["--input-type=module", "-e", calls], options)).stdout;
  };
  // Two error codes are enough, because the generated client treats all codes alike.
  const after = [`[ ${SHIPPED_ID}n, ${IDS[0]}n ]`, "order_already_shipped:", ""];
  expect(await said(key)).toBe(
    [`[ ${SHIPPED_ID}n, ${IDS[0]}n, ${IDS[1]}n ]`, "undefined", ...after].join("\n"),
  );
  expect(await said("")).toBe("unauthorized:\n".repeat(4));
});
