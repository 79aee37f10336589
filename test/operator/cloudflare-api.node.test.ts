import { createServer, type Server } from "node:http";
import { connect } from "node:net";
import { join } from "node:path";
import { sql } from "drizzle-orm";
import { beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { API_PATIENCE } from "../../src/operator/cloudflare-api.ts";
import { openRemoteDatabase } from "../../src/operator/database/remote.ts";
import { keysProgram } from "../../src/operator/keys/program.ts";
import { PROJECT_ROOT } from "../../src/operator/wrangler.ts";
import { listen, useFakeCloudflare } from "./deploy/fake-cloudflare.ts";
import { failure, runCommand, runInProcess } from "./commands.ts";

const cloudflare = useFakeCloudflare("staging");

/** Starts a server for one test, and returns its address. */
function serve(server: Server): Promise<string> {
  onTestFinished(() => (server.closeAllConnections(), void server.close()));
  return listen(server);
}

it.each(["", '{"result":'])(
  "a query whose answer ends after %j is reported after ten seconds, and given up after two minutes",
  async (beginning) => {
    const real = { ...API_PATIENCE };
    expect(real).toEqual({ noticeMs: 10_000, timeoutMs: 120_000 });
    onTestFinished(() => void Object.assign(API_PATIENCE, real));
    const result = [{ name: "store-orders-staging-keys", uuid: "ID" }];
    const server = createServer(({ method }, response) => {
      // Only a query hangs, and only a query is impatient.
      if (method === "GET") response.end(JSON.stringify({ result }));
      else if (beginning !== "") response.write(beginning);
      Object.assign(API_PATIENCE, method === "GET" ? { noticeMs: 1, timeoutMs: 50 } : real);
    });
    vi.stubEnv("CLOUDFLARE_API_BASE_URL", await serve(server));
    onTestFinished(() => cloudflare.logIn());
    const database = openRemoteDatabase({ env: "staging", name: "keys" });
    await expect(database.transaction([sql`DELETE FROM api_keys`])).rejects.toThrow(
      "staging keys database: nothing came in two minutes. It is not known whether",
    );
    Object.assign(API_PATIENCE, real);
    // It is not repeated.
    const outcome = await runInProcess(keysProgram(), ["list", "--env", "staging"]);
    expect(outcome).toEqual(failure("error: staging keys database: nothing came in two minutes\n"));
    const notices = /^Cloudflare has not answered POST .*\/raw for ten seconds\. .*\nerror: .*\n$/;
    expect(outcome.stderr).toMatch(notices);
  },
);

describe("a proxy of the environment", () => {
  /** The addresses that the proxy was asked for. It tunnels to this machine, and nowhere else. */
  const asked = new Set<string | undefined>();
  let proxy: string;
  beforeEach(async () => {
    asked.clear();
    const server = createServer();
    server.on("connect", ({ url }, socket) => {
      asked.add(url);
      const { hostname, port } = new URL(`http://${url}`);
      if (hostname !== "0.0.0.0") return socket.end("HTTP/1.1 403 Forbidden\r\n\r\n");
      socket.write("HTTP/1.1 200 OK\r\n\r\n");
      return socket.pipe(connect(Number(port), "127.0.0.1")).pipe(socket);
    });
    proxy = await serve(server);
  });
  const main = join(PROJECT_ROOT, "src/operator/main.js");
  const run = (line: string, env: NodeJS.ProcessEnv) =>
    runCommand(process.execPath, [main, ...line.split(" ")], env);

  it.each([
    ["is used for an address that NO_PROXY does not list", "a.example", true],
    ["is not used for an address that NO_PROXY lists", "a.example,0.0.0.0", false],
  ])("%s", async (_, listed, isUsed) => {
    // An address of this machine that no proxy skips by itself.
    const base = cloudflare.origin.replace("127.0.0.1", "0.0.0.0");
    const env = { CLOUDFLARE_API_BASE_URL: base, HTTP_PROXY: proxy, NO_PROXY: listed };
    expect(await run("keys list --env staging --json", env)).toMatchObject({ stdout: "[]\n" });
    expect([...asked]).toEqual(isUsed ? [new URL(base).host] : []);
  });

  it("tunnels to Cloudflare's own address, and its refusal ends the command", async () => {
    const login = { CLOUDFLARE_API_BASE_URL: undefined, CLOUDFLARE_ACCOUNT_ID: "" };
    const outcome = await run("verify --env staging", { ...login, HTTPS_PROXY: proxy });
    expect(outcome).toEqual(failure("error: Cloudflare, GET /accounts: no answer: "));
    expect([...asked]).toEqual(["api.cloudflare.com:443"]);
  });
});
