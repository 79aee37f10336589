import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { bundleWorker } from "../bench/bundle.ts";
import { Server } from "../bench/server.ts";
import { createStore, type Store } from "../bench/store.ts";

const DELAY_MS = 300;
/** So many ask the database at once, each for itself. */
const READERS = 4;
const CLIENTS = 40;

let folder: string;
let store: Store;
let server: Server;
let entityTag: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "store-orders-"));
  store = await createStore(folder, 10);
  server = await Server.start(await bundleWorker(folder, "observed/left-service"), {
    store: store.folder,
    hasObjects: true,
    vars: { DELAY_MS, DATABASE_TIMEOUT_MS: "5000" },
  });
  entityTag = (await ask()).entityTag;
}, 300_000);
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await rm(folder, { recursive: true });
});

interface Answer {
  readonly status: number;
  readonly entityTag: string;
}

async function ask(headers: Record<string, string> = {}): Promise<Answer> {
  const response = await fetch(`${server.url}/v1/store/orders`, {
    headers: { Authorization: `Bearer ${store.key}`, ...headers },
  });
  await response.arrayBuffer();
  return { status: response.status, entityTag: response.headers.get("ETag") ?? "" };
}

/** What clients are answered that ask all at once whether the list has changed. */
function askAtOnce(clients: number, headers: Record<string, string> = {}): Promise<Answer[]> {
  const conditional = { "If-None-Match": entityTag, ...headers };
  return Promise.all(Array.from({ length: clients }, () => ask(conditional)));
}

it("is told to all who ask at once, and so is each change", async () => {
  for (let round = 0; round < 2; round += 1) {
    expect(await askAtOnce(CLIENTS)).toEqual(Array(CLIENTS).fill({ status: 304, entityTag }));
    await server.changeOrderList();
    const answers = await askAtOnce(CLIENTS);
    expect(answers[0]?.entityTag).not.toBe(entityTag);
    entityTag = answers[0]?.entityTag ?? "";
    expect(answers).toEqual(Array(CLIENTS).fill({ status: 200, entityTag }));
    await askAtOnce(1);
  }
});

it("is told to those who wait for others that leave", async () => {
  const leavers = askAtOnce(READERS, { "Leave-After": String(DELAY_MS / 3) });
  await wait(DELAY_MS / 6);
  expect(await askAtOnce(CLIENTS)).toEqual(Array(CLIENTS).fill({ status: 304, entityTag }));
  expect((await leavers).map(({ status }) => status)).toEqual(Array(READERS).fill(499));
});

it("is told to those who wait with others that leave before it is their turn", async () => {
  const readers = askAtOnce(READERS);
  await wait(DELAY_MS / 10);
  const leavers = askAtOnce(READERS, { "Leave-After": String(DELAY_MS / 3) });
  await wait(DELAY_MS / 10);
  expect(await askAtOnce(CLIENTS)).toEqual(Array(CLIENTS).fill({ status: 304, entityTag }));
  expect(await readers).toEqual(Array(READERS).fill({ status: 304, entityTag }));
  expect((await leavers).map(({ status }) => status)).toEqual(Array(READERS).fill(499));
});
