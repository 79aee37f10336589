import { afterAll, afterEach, expect, it, vi } from "vitest";
import { StoreFolder } from "../store-folder.ts";

const store = new StoreFolder();
afterEach(() => void vi.useRealTimers());
afterAll(() => store.remove());

it.each([-5, 5])(
  "times are the database's, on a machine whose clock is %i minutes off",
  async (minutes) => {
    const real = Date.now();
    const isNow = (time: string) => expect(Math.abs(Date.parse(time) - real)).toBeLessThan(60_000);
    vi.useFakeTimers({ toFake: ["Date"], now: real + minutes * 60_000 });
    const { id, createdAt } = await store.keysJson("create", "--plan", "free", "--name", "A");
    isNow(createdAt);
    const { formerKeyEndsAt } = await store.keysJson("rotate", id, "--grace", "0");
    isNow(formerKeyEndsAt);
    const { revokedAt, state } = await store.keysJson("revoke", id);
    isNow(revokedAt);
    expect(state).toBe("revoked");
    for (const { at } of await store.keysJson("audit", id)) isNow(at);
    const soon = new Date(real + 60_000).toISOString();
    const created = await store.keys("create", "--plan", "free", "--name", "B", "--expires", soon);
    expect(created.status).toBe(0);
  },
);
