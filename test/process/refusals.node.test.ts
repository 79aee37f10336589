import { once } from "node:events";
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it, vi } from "vitest";
import { startProgram } from "../../src/operator/start/program.ts";
import { prepareStore } from "../../src/operator/start/sample-store.ts";
import { isStore } from "../../src/operator/database/local-store.ts";
import { failure, runInProcess } from "../operator/in-process.ts";
import { makeEmptyStore, StoreFolder } from "../operator/store-folder.ts";
import { copyProject, freePort, Service } from "./service.ts";

const folder = mkdtempSync(join(tmpdir(), "store-orders-start-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("npm start", () => {
  it("refuses a port in use with exit status 1, before it creates databases and keys", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as { port: number };
    const store = join(folder, "store");
    const args = ["--port", String(port), "--persist-to", store, "--empty"];
    const outcome = await runInProcess(startProgram(), args);
    server.close();
    expect(outcome).toEqual(
      failure(`port ${port} cannot be used (listen EADDRINUSE: address already in use`),
    );
    expect(isStore(store)).toBe(false);
  });

  it("names the store if its disk is full, and makes it once there is room", async () => {
    const disk = join(folder, "disk");
    mkdirSync(disk);
    const mount = (...args: string[]) => spawnSync("mount", ["-t", "tmpfs", ...args, disk]).status;
    // Without the right to mount, a folder of /proc: no file system with less free space is common.
    const isMounted = mount("-o", "size=60k", "tmpfs") === 0;
    const store = isMounted ? join(disk, "store") : "/proc/self/task";
    try {
      const port = await freePort();
      const args = ["--port", String(port), "--persist-to", store];
      const full = `The disk of ${store} is full: make room, and run the same command again\n`;
      expect(await runInProcess(startProgram(), args)).toEqual(failure(full));
      if (!isMounted) return;
      mount("-o", "remount,size=60m", "tmpfs");
      expect(await prepareStore(store, false)).toHaveLength(4);
    } finally {
      if (isMounted) spawnSync("umount", ["--lazy", disk]);
    }
  });

  // This test and the next one run concurrently, because each of them mostly waits for wrangler.
  it.concurrent("exits with status 1 if another program takes the port during startup", async () => {
    const other = createServer((_, response) => response.end("other"));
    const own = join(folder, "own");
    await makeEmptyStore(own);
    const service = await Service.launch(own);
    // `npm start` prints this line after it has checked the port.
    await vi.waitUntil(() => service.stderr.includes("Starting"), { timeout: 50_000 });
    try {
      await once(other.listen(service.port, "127.0.0.1"), "listening");
      expect(await service.exited()).toBe(1);
    } finally {
      other.close();
      await service.end("SIGKILL");
      rmSync(own, { recursive: true });
    }
    const address = `127.0.0.1:${service.port}`;
    expect(service.stdout).toBe("");
    expect(service.stderr).toContain(
      `the service did not start: Address already in use (${address})`,
    );
  });

  it.concurrent("makes a store without keys and orders with --empty, and refuses invalid vars by name", async () => {
    const vars = ["BAN_FIRST_SECONDS=soon", "CORS_ORIGINS=nowhere"];
    const root = copyProject(join(folder, "project"), ...vars);
    const store = new StoreFolder();
    const service = await Service.launch(store.path, { args: ["--empty"], root });
    try {
      await vi.waitUntil(() => service.hasExited, { timeout: 50_000 });
      expect(await service.exited()).toBe(1);
    } finally {
      await service.end("SIGKILL");
    }
    expect(service.stderr).toMatch(
      /^Preparing a new store in .*: two databases\. .*\nerror: the service did not start: Invalid vars: .*\n$/,
    );
    expect(service.stderr).toContain("BAN_FIRST_SECONDS: must be a whole number from 1 to 86400");
    expect(service.stderr).toContain("CORS_ORIGINS: entry 1 is not an origin");
    expect(service.stdout).toBe("");
    expect(await store.keysJson("list")).toEqual([]);
    expect((await store.orders(["export"])).stdout).toBe("");
    store.remove();
  });
});
