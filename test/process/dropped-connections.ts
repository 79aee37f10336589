import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { beforeAll, expect, it } from "vitest";
import { Load } from "./load.ts";
import { processTree } from "./processes.ts";

const DROPS = 300;
const AT_ONCE = 10;
const PART = Buffer.alloc(64 * 1024, " ");

/** A running service, and functions that send complete requests with the key. */
interface Target {
  readonly url: string;
  readonly key: string;
  list(): Promise<Response>;
  cancel(id: string): Promise<Response>;
}

let service: Target;

/** Opens a connection and sends the request line and headers of a request. */
async function send(requestLine: string, ...headers: readonly string[]): Promise<Socket> {
  const socket = connect(Number(new URL(service.url).port), "127.0.0.1");
  // The service may close the connection first.
  socket.on("error", () => {});
  await once(socket, "connect");
  const head = [`${requestLine} HTTP/1.1`, "Host: localhost", ...headers];
  socket.write(`${head.join("\r\n")}\r\n\r\n`);
  return socket;
}

/** Announces a request body of 10 MB, sends a part of the body and disconnects. */
async function dropUpload(index: number): Promise<void> {
  const [method, path] = index % 2 === 0 ? ["POST", "orders"] : ["DELETE", "orders/none"];
  // Every third upload has no key and is refused before its body is read.
  const credentials = index % 3 === 0 ? [] : [`Authorization: Bearer ${service.key}`];
  const address = `CF-Connecting-IP: 192.0.2.${index % 200}`;
  const length = `Content-Length: ${10 * 1024 * 1024}`;
  const socket = await send(`${method} /v1/store/${path}`, ...credentials, address, length);
  for (let parts = 0; parts < index % 5; parts += 1) {
    socket.write(PART);
    await turn();
  }
  socket.destroy();
}

/** Requests the list and disconnects before or during the response. */
async function dropDownload(index: number): Promise<void> {
  const socket = await send("GET /v1/store/orders", `Authorization: Bearer ${service.key}`);
  if (index % 3 > 0) await Promise.race([once(socket, "data"), once(socket, "close")]);
  if (index % 3 > 1) socket.resetAndDestroy();
  else socket.destroy();
}

/**
 * Drops many connections while other clients send complete requests. Returns the results of these
 * other clients.
 */
async function dropMany(drop: (index: number) => Promise<void>): Promise<Load> {
  const load = new Load(4, (index) => (index % 2 === 0 ? service.list() : service.cancel("none")));
  let next = 0;
  const dropping = Array.from({ length: AT_ONCE }, async () => {
    while (next < DROPS) await drop(next++);
  });
  await Promise.all(dropping);
  await load.stop();
  return load;
}

/** Returns the ids of this test's workerd processes. After a crash, these ids would change. */
function workerdProcesses(): number[] {
  const running = processTree(process.pid);
  const servers = running.filter(({ command }) => command.includes("workerd serve"));
  return servers.map(({ pid }) => pid);
}

/** Defines tests in which some clients disconnect while other clients send complete requests. */
export function testDroppedConnections(started: () => Target): void {
  beforeAll(() => {
    service = started();
  });

  it.each([
    ["in the middle of a large upload", dropUpload],
    ["in the middle of a large download", dropDownload],
  ])("%s do not harm other clients", async (_, drop) => {
    const list = await (await service.list()).text();
    expect(list.length).toBeGreaterThan(1_000_000);
    const workerd = workerdProcesses();
    expect(workerd.length).toBeGreaterThan(0);
    const load = await dropMany(drop);
    expect(load.failures).toEqual([]);
    expect(Object.keys(load.statuses)).toEqual(["200", "404"]);
    expect(workerdProcesses()).toEqual(workerd);
    const response = await service.list();
    expect(response.status).toBe(200);
    expect((await response.text()) === list).toBe(true);
  });
}
