import { beforeEach, expect, test, vi } from "vitest";
import { generateSecret } from "../../../src/operator/keys/key-changes.ts";
import { createApiKey, createEnterpriseKey } from "../../support/api-key-fixture.ts";
import { stopClock } from "../../support/clock.ts";
import { faultyDatabases } from "../../support/faults.ts";
import { type Send, startService } from "../../support/service.ts";

const PATH = "/v1/nothing";
const ADDRESS = "198.51.100.7";
const OTHER_ADDRESS = "198.51.100.8";

let line: ReturnType<typeof faultyDatabases>;
let service: Send;

beforeEach(() => {
  line = faultyDatabases("KEYS");
  service = startService({}, line.bindings);
  stopClock();
});

const queries = () => line.script.calls;

async function sendAll(keys: readonly string[], address: string): Promise<Record<number, number>> {
  const answers = await Promise.all(keys.map((key) => service(PATH, { key, address })));
  const byStatus = Object.groupBy(answers, ({ status }) => status);
  return Object.fromEntries(Object.entries(byStatus).map(([status, all]) => [status, all!.length]));
}

const invented = (count: number) => Array.from({ length: count }, generateSecret);

test("concurrent first requests with many keys share queries, and each finds its own key", async () => {
  const keys = await Promise.all(Array.from({ length: 10 }, () => createApiKey()));
  const answers = await Promise.all([
    ...keys.map(({ key }) => service(PATH, { key })),
    ...invented(30).map((key) => service(PATH, { key })),
  ]);
  const statuses = answers.map(({ status }) => status);
  expect(statuses).toStrictEqual([...Array(10).fill(404), ...Array(30).fill(401)]);
  expect(queries()).toBeLessThanOrEqual(5);
});

test("hundreds of invented keys from one address cause only a few queries and do not block valid keys", async () => {
  const { key: good } = await createEnterpriseKey(1_000, 1_000);
  const { key: late } = await createApiKey();
  expect((await service(PATH, { key: good, address: OTHER_ADDRESS })).status).toBe(404);

  const flood = await sendAll(invented(60), ADDRESS);
  expect(flood).toStrictEqual({ 401: 60 });
  const before = queries();
  for (let wave = 0; wave < 4; wave += 1) {
    const attack = sendAll(invented(94), ADDRESS);
    const newcomer = service(PATH, { key: (await createApiKey()).key, address: OTHER_ADDRESS });
    expect((await service(PATH, { key: good, address: OTHER_ADDRESS })).status).toBe(404);
    expect((await newcomer).status).toBe(404);
    if (wave === 3) {
      expect((await service(PATH, { key: late, address: ADDRESS })).status).toBe(404);
    }
    expect(await attack).toStrictEqual({ 429: 94 });
  }
  // Each of the four waves needs up to two queries for the attack and one for the new key. The key
  // `late` needs one more query.
  expect(queries() - before).toBeLessThanOrEqual(13);
});

test("a request from an address past its budget waits while other requests are served", async () => {
  await sendAll(invented(61), ADDRESS);
  const { key } = await createApiKey();
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  let isAnswered = false;
  const suspect = service(PATH, { key: generateSecret(), address: ADDRESS }).then(({ status }) => {
    isAnswered = true;
    return status;
  });
  expect((await service(PATH, { key, address: OTHER_ADDRESS })).status).toBe(404);
  expect(isAnswered).toBe(false);
  await vi.advanceTimersByTimeAsync(25);
  expect(await suspect).toBe(429);
});

test("a request with a remembered key from an address past its budget does not wait, even for a new look-up", async () => {
  const { key } = await createApiKey();
  const isServed = async () => (await service(PATH, { key, address: ADDRESS })).status === 404;
  await isServed();
  await sendAll(invented(61), ADDRESS);
  const before = queries();
  vi.useFakeTimers({ toFake: ["Date", "setTimeout", "clearTimeout"], now: Date.now() });
  expect(await isServed()).toBe(true);
  expect(queries()).toBe(before);
  vi.setSystemTime(Date.now() + 25_000);
  expect(await isServed()).toBe(true);
  expect(queries()).toBe(before + 1);
});
