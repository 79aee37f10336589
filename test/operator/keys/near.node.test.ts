import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { tableCells } from "../table-cells.ts";
import { KeysCommand } from "./keys-command.ts";

let keys: KeysCommand;
beforeAll(async () => {
  vi.stubEnv("COLUMNS", "200");
  keys = await KeysCommand.open();
});
afterAll(() => keys.close());

const CREATE = ["create", "--plan", "pro", "--name", "Zoo"];

it("keys create --near stores the region of a key, which later changes keep", async () => {
  const { id, locationHint } = await keys.json(...CREATE, "--near", "weur");
  expect(locationHint).toBe("weur");
  await keys.json("update", id, "--plan", "free");
  await keys.json("rotate", id);
  expect(await keys.json("show", id)).toMatchObject({ plan: "free", locationHint: "weur" });
  const [titles = [], row = []] = tableCells(await keys.text("list"));
  expect(row[titles.indexOf("near")]).toBe("weur");
  const [, , created] = await keys.json("audit", id);
  expect(created.details).toMatchObject({ locationHint: { from: null, to: "weur" } });
});

it("keys create without --near stores no region", async () => {
  const { id } = await keys.json(...CREATE);
  expect(await keys.json("show", id)).toMatchObject({ locationHint: null });
  expect(await keys.text("show", id)).not.toContain("near");
});

it("keys create refuses an unknown region", async () => {
  const { status, stdout, stderr } = await keys.run(...CREATE, "--near", "paris");
  expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
  expect(stderr).toContain("Allowed choices are wnam, enam, sam, weur");
});
