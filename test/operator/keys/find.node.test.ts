import { Readable } from "node:stream";
import { sql } from "drizzle-orm";
import { afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import type { CreatedKey } from "../../../src/operator/key-store/administration.ts";
import { generateSecret } from "../../../src/operator/key-store/secret.ts";
import { KeysCommand } from "./keys-command.ts";

const keys = new KeysCommand();
let zoo: CreatedKey;
let older: CreatedKey;

beforeAll(async () => {
  vi.stubEnv("COLUMNS", "200");
  zoo = await keys.add({ name: "Zoo" });
  older = await keys.add({ name: "Older" });
});
afterEach(() => void vi.restoreAllMocks());

/** Runs `keys find` with `input` on standard input. Each item of `input` is one chunk. */
function findByInput(input: Iterable<string>, ...args: string[]) {
  const stdin = Readable.from(Iterator.from(input)) as typeof process.stdin;
  vi.spyOn(process, "stdin", "get").mockReturnValue(stdin);
  return keys.run("find", ...args);
}

function* endless(): Generator<string, never> {
  for (;;) yield "x".repeat(1_000_000);
}

async function idsByInput(input: string): Promise<string[]> {
  const { status, stdout, stderr } = await findByInput(input, "--json");
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  return JSON.parse(stdout).map(({ id }: { id: string }) => id);
}

describe("keys find, with a key on standard input", () => {
  it("shows the id, and never the secret", async () => {
    expect(await idsByInput(zoo.key)).toEqual([zoo.record.id]);
    expect(await idsByInput(` ${older.key}\r\n`)).toEqual([older.record.id]);
    const { stdout } = await findByInput(`${zoo.key}\n`);
    expect(stdout).toContain(zoo.record.id);
    expect(stdout).not.toContain(zoo.key);
  });

  it("finds the same key by its former and its current secret, or their endings", async () => {
    const { key: former, record: rotated } = await keys.add({ name: "Rotated" });
    const { key: current } = await keys.json("rotate", rotated.id);
    expect(await idsByInput(former)).toEqual([rotated.id]);
    expect(await idsByInput(current)).toEqual([rotated.id]);
    for (const secret of [former, current]) {
      expect(await keys.json("find", secret.slice(-4))).toMatchObject([{ id: rotated.id }]);
    }
  });

  it.each([
    ["nothing", () => ""],
    ["a mistyped key", () => `${zoo.key.slice(0, -1)}${zoo.key.endsWith("a") ? "b" : "a"}`],
    ["two keys", () => `${zoo.key}\n${older.key}`],
    ["endless input", endless],
  ])("refuses %s", async (_, input) => {
    const { status, stdout, stderr } = await findByInput(input());
    expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
    expect(stderr).toContain("holds no API key of this service");
    expect(stderr).not.toContain("sord_");
  });

  it("says that the store does not know the key", async () => {
    const { status, stdout, stderr } = await findByInput(generateSecret());
    expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
    expect(stderr).toContain("this store does not know the key");
  });
});

describe("keys find, with the last characters", () => {
  const ending = (characters: number) => zoo.key.slice(-characters);

  it.each([1, 4])("finds a key by the last %i, in upper case too", async (characters) => {
    const found = await keys.json("find", ending(characters).toUpperCase());
    expect(found.map(({ id }: any) => id)).toContain(zoo.record.id);
    const others = found.filter(({ lastFour }: any) => !lastFour?.endsWith(ending(characters)));
    // A key with another ending can match only by its former secret, after a rotation.
    expect(others.every(({ formerKeyEndsAt }: any) => formerKeyEndsAt !== null)).toBe(true);
  });

  it("says that no key has this ending, and refuses more characters without repeating them", async () => {
    const absent = zoo.key.endsWith("aaaa") ? "bbbb" : "aaaa";
    const { status, stdout, stderr } = await keys.run("find", absent);
    expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
    expect(stderr).toContain(`no key is known to end in ${absent}`);
    const tooMuch = await keys.run("find", ending(5));
    expect(tooMuch).toMatchObject({ status: 2, stdout: "" });
    expect(tooMuch.stderr).toContain("the last one to four letters or digits");
    expect(tooMuch.stderr).not.toContain(ending(5));
  });
});

describe("the last four characters", () => {
  it("are in the list", async () => {
    const list = await keys.text("list");
    expect(list).toMatch(new RegExp(`Zoo .* ${zoo.key.slice(-4)} `));
    expect(list).not.toContain("sord_");
  });

  it("cannot be more than four, because the database refuses more", async () => {
    const database = await keys.database();
    const write = sql`UPDATE api_keys SET last_four = ${zoo.key.slice(-5)}`;
    const refusal = "last_four_is_no_more_of_the_key";
    await expect(database.transaction([write])).rejects.toThrow(refusal);
  });
});
