import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { join } from "node:path";
import { sql } from "drizzle-orm";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { API_PATIENCE } from "../../src/operator/cloudflare-api.ts";
import { openRemoteDatabase } from "../../src/operator/database/remote.ts";
import { keysProgram } from "../../src/operator/keys/program.ts";
import { PROJECT_ROOT } from "../../src/operator/wrangler.ts";
import { useFakeCloudflare } from "./deploy/fake-cloudflare.ts";
import { failure, runCommand, runInProcess } from "./commands.ts";

const cloudflare = useFakeCloudflare("staging");

async function portOf(server: Server): Promise<number> {
  onTestFinished(() => (server.closeAllConnections(), void server.close()));
  await once(server.listen(0, "127.0.0.1"), "listening");
  return (server.address() as AddressInfo).port;
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
    vi.stubEnv("CLOUDFLARE_API_BASE_URL", `http://127.0.0.1:${await portOf(server)}`);
    onTestFinished(() => void vi.stubEnv("CLOUDFLARE_API_BASE_URL", cloudflare.origin));
    const database = openRemoteDatabase({ env: "staging", name: "keys" });
    await expect(database.transaction([sql`DELETE FROM api_keys`])).rejects.toThrow(
      "staging keys database: nothing came in two minutes. It is not known whether",
    );
    Object.assign(API_PATIENCE, real);
    // It is not repeated.
    expect(await runInProcess(keysProgram(), ["list", "--env", "staging"])).toEqual({
      status: 1,
      stdout: "",
      stderr: expect.stringMatching(
        /^Cloudflare has not answered POST .*\/raw for ten seconds\. .*\nerror: staging keys database: nothing came in two minutes\n$/,
      ),
    });
  },
);

describe("a proxy of the environment", () => {
  /** Starts a proxy that tunnels to this machine, and nowhere else. */
  async function startProxy() {
    const asked: (string | undefined)[] = [];
    const server = createServer();
    server.on("connect", ({ url }, socket) => {
      asked.push(url);
      const { hostname, port } = new URL(`http://${url}`);
      if (hostname !== "0.0.0.0") return socket.end("HTTP/1.1 403 Forbidden\r\n\r\n");
      socket.write("HTTP/1.1 200 OK\r\n\r\n");
      return socket.pipe(connect(Number(port), "127.0.0.1")).pipe(socket);
    });
    return { asked, url: `http://127.0.0.1:${await portOf(server)}` };
  }
  const main = join(PROJECT_ROOT, "src/operator/main.js");
  const run = (line: string, env: NodeJS.ProcessEnv) =>
    runCommand(process.execPath, [main, ...line.split(" ")], env);

  it.each([
    ["is used for an address that NO_PROXY does not list", "a.example", true],
    ["is not used for an address that NO_PROXY lists", "a.example,0.0.0.0", false],
  ])("%s", async (_, listed, isUsed) => {
    const proxy = await startProxy();
    // An address of this machine that no proxy skips by itself.
    const base = cloudflare.origin.replace("127.0.0.1", "0.0.0.0");
    const env = { CLOUDFLARE_API_BASE_URL: base, HTTP_PROXY: proxy.url, NO_PROXY: listed };
    expect(await run("keys list --env staging --json", env)).toMatchObject({ stdout: "[]\n" });
    expect(new Set(proxy.asked)).toEqual(new Set(isUsed ? [new URL(base).host] : []));
  });

  it("tunnels to Cloudflare's own address, and its refusal ends the command", async () => {
    const proxy = await startProxy();
    const env = {
      CLOUDFLARE_API_BASE_URL: undefined,
      CLOUDFLARE_ACCOUNT_ID: "",
      HTTPS_PROXY: proxy.url,
    };
    const outcome = await run("verify --env staging", env);
    expect(outcome).toEqual(failure("error: Cloudflare, GET /accounts: no answer: "));
    expect(proxy.asked).toEqual(["api.cloudflare.com:443"]);
  });
});
