import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { startProgram } from "../../src/operator/start/program.ts";
import type { Outcome } from "../operator/deploy/run-command.ts";
import { runInProcess } from "../operator/in-process.ts";
import { StoreFolder } from "../operator/store-folder.ts";
import { freePort, Service } from "./service.ts";

const store = new StoreFolder();
afterAll(() => store.remove());

/** Starts a second service on the same store, and waits until it has refused to start. */
function start(port: number): Promise<Outcome> {
  return runInProcess(startProgram(), ["--port", String(port), "--persist-to", store.path]);
}

/** Kills the service at the end of the current test. */
function ended(service: Service): void {
  onTestFinished(() => service.end("SIGKILL"));
}

describe("a store that is served", { timeout: 120_000 }, () => {
  let service: Service;
  let key: string;

  beforeAll(async () => {
    await store.make();
    service = await Service.start(store.path, { args: ["--empty"] });
  });
  afterAll(() => service.end("SIGKILL"));

  it("cannot be used by a second service, but can be used by commands", async () => {
    const other = await freePort();
    const message = (port: number) =>
      `error: process ${service.pid} already serves the store ${store.path} on port ${service.port}; ` +
      `end it first, or serve another store: npm start -- --port ${port} --persist-to OTHER\n`;
    const [elsewhere, samePort] = await Promise.all([start(other), start(service.port)]);
    expect(elsewhere).toEqual({ status: 1, stdout: "", stderr: message(other) });
    expect(samePort).toEqual({ status: 1, stdout: "", stderr: message(service.port + 1) });
    ({ key } = await store.keysJson("create", "--plan", "free", "--name", "Beside"));
    expect((await service.list(key)).status).toBe(200);
  });

  it("can be served again after a kill, by one of two services that start at once", async () => {
    process.kill(service.pid, "SIGKILL");
    await service.exited();
    // Writes the process id of this test, as if another program had received the killed service's
    // id.
    const holder = { pid: process.pid, port: service.port };
    writeFileSync(join(store.path, "service.json"), JSON.stringify(holder));
    // Starts two services on the store immediately, while other processes of the killed service may
    // still run.
    const launch = () => Service.launch(store.path, { args: ["--empty"] });
    const both = await Promise.all([launch(), launch()]);
    both.forEach(ended);

    expect(await Promise.race(both.map((candidate) => candidate.exited()))).toBe(1);
    const loser = both.find(({ hasExited }) => hasExited)!;
    const winner = both.find((candidate) => candidate !== loser)!;
    expect(loser.stderr).toContain(`process ${winner.pid} already serves`);
    expect(loser.stderr).toContain(`on port ${winner.port};`);

    await expect.poll(() => winner.stdout, { timeout: 50_000 }).toContain("Serving on");
    expect(service.processes()).toEqual([]);
    // The key still works, because --empty deletes nothing from an existing store.
    expect((await winner.list(key)).status).toBe(200);
    // The service that runs must end first: `loser.end()` waits until no process uses the store.
    await winner.end("SIGTERM");
  });
});
