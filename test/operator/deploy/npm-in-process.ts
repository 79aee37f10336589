import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { text } from "node:stream/consumers";
import type { Command } from "commander";
import { vi } from "vitest";
import { keysProgram } from "../../../src/operator/keys/program.ts";
import { metricsProgram } from "../../../src/operator/metrics/program.ts";
import { ordersProgram } from "../../../src/operator/orders/program.ts";
import { timeTravelProgram } from "../../../src/operator/time-travel/program.ts";
import { QUIET_WRANGLER, wranglerCommand } from "../../../src/operator/wrangler.ts";
import { runInProcess } from "../in-process.ts";
import { runFakeWrangler } from "./fake-wrangler.ts";

const PROGRAMS: Readonly<Record<string, () => Command>> = {
  keys: keysProgram,
  metrics: metricsProgram,
  orders: ordersProgram,
  "time-travel": timeTravelProgram,
};

/** A shell function that sends its arguments, one per line, an empty line and stdin to the test. */
const SEND = `#!/bin/sh
send() {
  { printf '%s\\n' "$@" && echo && cat; } |
    curl -sS --fail-with-body --data-binary @- -H "Api: $CLOUDFLARE_API_BASE_URL" "$NPM_IN_PROCESS"
}
`;
const NPM = `${SEND}send "$@"\n`;

const WRANGLER = wranglerCommand([]);
const NPX = `${SEND}
case "$2 $3" in
  'd1 execute') send "$@" ;;
  *) shift; exec '${[WRANGLER.command, ...WRANGLER.args].join("' '")}' "$@" ;;
esac
`;

/**
 * Provides an `npm` and an `npx` for shell scripts. `npm run NAME -- …` runs the command in this
 * process. `npx wrangler d1 execute …` runs the fake wrangler, because the scripts have many of
 * these commands. `npx wrangler …` runs the real wrangler.
 */
export class NpmInProcess {
  /** The stderr of all commands so far. */
  stderr = "";
  readonly #folder = mkdtempSync(join(tmpdir(), "store-orders-npm-"));
  readonly #scripts = (
    JSON.parse(readFileSync("package.json", "utf8")) as { scripts: Record<string, string> }
  ).scripts;
  readonly #server = createServer((request, response) => void this.#answer(request, response));

  async start(): Promise<void> {
    for (const [name, script] of Object.entries({ npm: NPM, npx: NPX })) {
      writeFileSync(join(this.#folder, name), script);
      chmodSync(join(this.#folder, name), 0o755);
    }
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
  }

  async stop(): Promise<void> {
    await new Promise((resolve) => this.#server.close(resolve));
    rmSync(this.#folder, { recursive: true });
  }

  get environment(): NodeJS.ProcessEnv {
    const { port } = this.#server.address() as AddressInfo;
    return {
      ...QUIET_WRANGLER,
      PATH: `${this.#folder}${delimiter}${process.env["PATH"]}`,
      NPM_IN_PROCESS: `http://127.0.0.1:${port}`,
    };
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const sent = await text(request);
    const end = sent.indexOf("\n\n");
    const words = sent.slice(0, end).split("\n");
    vi.stubEnv("CLOUDFLARE_API_BASE_URL", String(request.headers["api"]));
    if (words[0] === "wrangler") return this.#answerWrangler(words.slice(1), response);
    const [run, name = "", separator, ...args] = words.filter(
      (argument, index) => index > 1 || argument !== "-s",
    );
    const program = PROGRAMS[name];
    const isScript = this.#scripts[name] === `node src/operator/main.ts ${name}`;
    if (run !== "run" || separator !== "--" || program === undefined || !isScript) {
      response.writeHead(500).end(`no such script: ${name}\n`);
      return;
    }
    const { status, stdout, stderr } = await runInProcess(program(), args, sent.slice(end + 2));
    this.stderr += stderr;
    response.writeHead(status === 0 ? 200 : 500).end(stdout);
  }

  async #answerWrangler(args: readonly string[], response: ServerResponse): Promise<void> {
    try {
      const { stdout } = await runFakeWrangler(args);
      response.end(stdout);
    } catch (error) {
      this.stderr += `${String(error)}\n`;
      response.writeHead(500).end();
    }
  }
}
