import { expect, test, vi } from "vitest";
import { unlessOvertaken } from "../../../src/store/keys/change-key.ts";

const OVERTAKEN = "D1_ERROR: NOT NULL constraint failed: key_changes.key_id: SQLITE_CONSTRAINT";

test("a change that others overtake again and again is refused after 20 attempts, with longer and longer random pauses", async () => {
  vi.spyOn(Math, "random").mockReturnValue(0.5);
  const pauses: number[] = [];
  const attempt = () => Promise.reject(new Error(OVERTAKEN));
  const changing = unlessOvertaken(attempt, async (ms) => void pauses.push(ms));
  await expect(changing).rejects.toMatchObject({ code: "key_busy" });
  const longest = Array.from({ length: 20 }, (_, index) => Math.min(4_000, 20 * 2 ** index));
  expect(pauses).toEqual(longest.map((ms) => ms / 2));
});
