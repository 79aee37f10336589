import { expect, test } from "vitest";
import { unlessOvertaken } from "../../../src/store/keys/change-key.ts";

const OVERTAKEN = "D1_ERROR: NOT NULL constraint failed: key_changes.key_id: SQLITE_CONSTRAINT";

test("a change that others overtake again and again is refused after 20 attempts, with pauses between them", async () => {
  const pauses: number[] = [];
  const attempt = () => Promise.reject(new Error(OVERTAKEN));
  const changing = unlessOvertaken(attempt, async (ms) => void pauses.push(ms));
  await expect(changing).rejects.toMatchObject({ code: "key_busy" });
  expect(new Set(pauses).size).toBe(20);
  expect(Math.max(...pauses)).toBeLessThan(4_000);
});
