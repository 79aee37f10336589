import { afterAll, beforeAll, expect, it } from "vitest";
import { StoreFolder } from "../cli/store-folder.ts";
import { Service } from "./service.ts";

/** More than may ask the database at once, so that most of them share what others have read. */
const CLIENTS = 40;
const SAMPLE_ORDERS = [1001, 1002, 1003, 1005, 1006];

const store = new StoreFolder();
let service: Service;
let key: string;

beforeAll(async () => {
  service = await Service.start(store.path);
  key = service.demoKeys.enterprise;
}, 120_000);
afterAll(async () => {
  await service.end("SIGKILL");
  store.remove();
});

/** What many clients are answered that ask all at once. */
async function answersTo(entityTag: string): Promise<{ status: number; entityTag: string }[]> {
  const requests = Array.from({ length: CLIENTS }, async () => {
    const init = { headers: { "If-None-Match": entityTag } };
    const response = await service.fetch("/orders", key, init);
    await response.arrayBuffer();
    return { status: response.status, entityTag: response.headers.get("ETag") ?? "" };
  });
  return Promise.all(requests);
}

/** Clients that ask the same and leave before they are answered. */
function leavers(entityTag: string): Promise<unknown> {
  const requests = Array.from({ length: CLIENTS }, async (_, index) => {
    const signal = AbortSignal.timeout(index % 10);
    const init = { headers: { "If-None-Match": entityTag }, signal };
    await (await service.fetch("/orders", key, init)).arrayBuffer();
  });
  return Promise.allSettled(requests);
}

it("is told to all who ask at once, and so is each change, whoever leaves meanwhile", async () => {
  let entityTag = (await service.list(key)).headers.get("ETag") ?? "";
  for (const id of SAMPLE_ORDERS) {
    for (let round = 0; round < 3; round += 1) {
      const [answers] = await Promise.all([answersTo(entityTag), leavers(entityTag)]);
      expect(answers).toEqual(Array.from(answers, () => ({ status: 304, entityTag })));
    }
    expect((await service.cancel(key, id)).status).toBe(204);
    const answers = await answersTo(entityTag);
    const changed = answers[0]?.entityTag ?? "";
    expect(changed).not.toBe(entityTag);
    expect(answers).toEqual(Array.from(answers, () => ({ status: 200, entityTag: changed })));
    entityTag = changed;
  }
});
