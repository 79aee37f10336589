import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, it, onTestFinished } from "vitest";
import { StoreFolder } from "../operator/store-folder.ts";
import { runCommand } from "../operator/deploy/run-command.ts";
import { leftOver } from "./processes.ts";
import { freePort, Service } from "./service.ts";

const store = new StoreFolder();
afterAll(() => store.remove());

/** A start that is expected to be refused. */
async function start(port: number) {
  const args = [
    "src/operator/main.ts",
    "start",
    "--port",
    String(port),
    "--persist-to",
    store.path,
  ];
  return runCommand(process.execPath, args, { env: {} });
}

function ended(service: Service): void {
  onTestFinished(() => service.end("SIGKILL"));
}

describe("a store that is served", { timeout: 120_000 }, () => {
  it("is refused to a second service, and open to the commands", async () => {
    const service = await Service.start(store.path, { args: ["--empty"] });
    ended(service);
    const other = await freePort();
    const message = (port: number) =>
      `error: process ${service.pid} already serves the store ${store.path} on port ${service.port}; ` +
      `end it first, or serve another store: npm start -- --port ${port} --persist-to OTHER\n`;
    const [elsewhere, samePort] = await Promise.all([start(other), start(service.port)]);
    expect(elsewhere).toEqual({ status: 1, stdout: "", stderr: message(other) });
    expect(samePort).toEqual({ status: 1, stdout: "", stderr: message(service.port + 1) });
    const { key } = await store.keysJson("create", "--plan", "free", "--name", "Beside");
    expect((await service.list(key)).status).toBe(200);
  });

  it("is free again after a kill, whatever the killed service left behind", async () => {
    const killed = await Service.start(store.path, { args: ["--empty"] });
    ended(killed);
    const processes = killed.processes();
    process.kill(killed.pid, "SIGKILL");
    // As if another program had got the number of the killed process.
    const holder = { pid: process.pid, port: killed.port };
    writeFileSync(join(store.path, "service.json"), JSON.stringify(holder));
    // At once, while what the killed service started may still be running.
    const next = await Service.start(store.path, { args: ["--empty"] });
    ended(next);
    expect(leftOver(processes, [])).toEqual([]);
    await next.end("SIGTERM");
  });

  it("goes to one of two services that start at the same moment", async () => {
    const both = await Promise.all([0, 1].map(() => Service.launch(store.path)));
    both.forEach(ended);
    expect(await Promise.race(both.map((service) => service.exited()))).toBe(1);
    const loser = both.find(({ hasExited }) => hasExited)!;
    const winner = both.find((service) => service !== loser)!;
    expect(loser.stderr).toContain(`process ${winner.pid} already serves`);
    expect(loser.stderr).toContain(`on port ${winner.port};`);
    await expect.poll(() => winner.stdout, { timeout: 60_000 }).toContain("Serving on");
    // First: the end of the other one waits until nothing on the store is left.
    await winner.end("SIGKILL");
  });
});
