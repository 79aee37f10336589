import { Readable } from "node:stream";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseOrder, readElements } from "../../../src/operator/orders/source.ts";

/** Returns the elements of a text whose bytes arrive in parts. */
async function read(text: string | Uint8Array, cuts: readonly number[] = []) {
  const bytes = typeof text === "string" ? Buffer.from(text) : text;
  const within = cuts.map((cut) => cut % (bytes.length + 1));
  const ends = [...new Set(within), bytes.length].toSorted((one, other) => one - other);
  const parts = ends.map((end, index) => bytes.subarray(ends[index - 1] ?? 0, end));
  const found = [];
  for await (const { kind, number, text: json, fault } of readElements(Readable.from(parts))) {
    if (fault !== undefined) throw new Error(`${kind} ${number}: ${fault}`);
    found.push([kind, number, json.trim()]);
  }
  return found;
}

const cuts = fc.array(fc.nat(), { maxLength: 20 });
const blank = fc.stringMatching(/^[ \t\r\n]{0,3}$/);
const element = fc
  .json({ stringUnit: "grapheme", maxDepth: 3 })
  .filter((json) => !json.includes("\ufffd"));

describe("a file is divided, however its bytes arrive,", () => {
  it("into the elements of its JSON array, and a number is named for what follows the array", async () => {
    const arrays = fc.array(element, { maxLength: 6 });
    const added = fc.constantFrom("x", "]", ",", "[]", '{"id":1}');
    const property = fc.asyncProperty(arrays, blank, cuts, added, async (items, space, at, end) => {
      const text = `${space}[${items.map((json) => space + json + space).join()}]${space}`;
      const expected = items.map((json, index) => ["element", index + 1, json]);
      expect(await read(text, at)).toEqual(expected);
      const fault = `element ${items.length + 1}: text after the end of the array`;
      await expect(read(text + end, at)).rejects.toThrow(fault);
    });
    await fc.assert(property);
  });

  it("into objects, on one line or several and with anything between them, by their first line", async () => {
    const object = fc.dictionary(fc.string(), fc.string(), { maxKeys: 3 });
    const indent = fc.constantFrom(0, 1, "\t");
    const json = fc.tuple(object, indent).map(([value, by]) => JSON.stringify(value, null, by));
    const gap = fc.constantFrom("", " ", "\n", "\r\n", "\n \n");
    const spaced = fc.array(fc.tuple(gap, json), { maxLength: 6 });
    const marks = fc.constantFrom("", "\ufeff");
    const property = fc.asyncProperty(spaced, marks, gap, cuts, async (objects, mark, end, at) => {
      const expected = objects.map(([space, each], index) => {
        const before = objects.slice(0, index).flat().join("") + space;
        return ["line", before.split("\n").length, each];
      });
      expect(await read(mark + objects.flat().join("") + end, at)).toEqual(expected);
    });
    await fc.assert(property);
  });

  it("and what is no object ends with its line, or before an object that begins a line", async () => {
    const text = '{"id":1\n{"id":"2}\n{"id":3}}\nnull\n{\n "id":4\n{"id":5},\n{"id":6';
    const found = ['{"id":1', '{"id":"2}', '{"id":3}', "}", "null", '{\n "id":4', '{"id":5}', ","];
    const lines = [1, 2, 3, 3, 4, 5, 7, 7];
    const expected = found.map((json, index) => ["line", lines[index], json]);
    for (const at of [[], [5, 9, 10, 11], Array.from(text, (_, index) => index)]) {
      expect(await read(text, at)).toEqual([...expected, ["line", 8, '{"id":6']]);
    }
  });

  const LONG = "x".repeat(65_537);
  it.each([
    ['[{"id":1},', "element 2: the file ends before the array does"],
    ['[{"id":1},]', "element 2: expected an order"],
    [`{}\n${LONG}`, "line 2: longer than 65536 characters"],
    [`[{},"${LONG}`, "element 2: longer than 65536 characters"],
    [Buffer.from("\n{\xff}", "latin1"), "line 2: not valid UTF-8"],
    [Buffer.from("[1,\xc3]", "latin1"), "element 2: not valid UTF-8"],
  ])("or the number of its first bad element is named: %.20j", async (text, message) => {
    await expect(read(text)).rejects.toThrow(message);
    await expect(read(text, [1, 2, 3, 5])).rejects.toThrow(message);
    expect(await read(LONG.slice(1))).toEqual([["line", 1, LONG.slice(1)]]);
  });
});

const parse = (text: string) => parseOrder({ text });
const TIME = '"cancelledAt":"2026-11-20T08:30:00Z"';
const KNOWN = "an order has id, petId, quantity, shipDate, complete, status";
const CANCELLED = "cancelledAt, cancelledBy, position";
const STATUS = 'expected "pending", "shipped" or "cancelled"';
const INTEGER = "expected an integer from -9223372036854775808 to 9223372036854775807";

describe("an order", () => {
  it("has its ship date in UTC, and may have a field twice with the same value", () => {
    const stated = '"shipDate":"2026-11-20T10:30:00+02:00"';
    const all = `{"id":1,"status":"shipped","complete":true,${stated},"quantity":0,"petId":-1,"id":1}`;
    const date = "2026-11-20T08:30:00.000Z";
    const rest = { petId: -1n, quantity: 0n, complete: true, status: "shipped" };
    expect(parse(all)).toStrictEqual({ id: 1n, shipDate: date, ...rest });
    expect(parse('{"id":1}')).toStrictEqual({ id: 1n, status: "pending" });
  });

  it.each([
    ["{}", `id: missing, ${INTEGER}`],
    ['{"id":1.0}', `id: ${INTEGER}, got 1.0`],
    ['{"id":9223372036854775808}', `id: ${INTEGER}, got 9223372036854775808`],
    ['{"id":-9223372036854775809}', `id: ${INTEGER}, got -9223372036854775809`],
    ['{"id":1,"quantity":null}', "quantity: null is no value, leave the field out"],
    ['{"id":1,"complete":1}', "complete: expected true or false, got 1"],
    ['{"id":1,"status":"lost"}', `status: ${STATUS}, got "lost"`],
    ['{"id":1,"status":"cancelled"}', "cancelledAt: missing, expected an RFC 3339 date-time"],
    [`{"id":1,${TIME}}`, `unknown field "cancelledAt", ${KNOWN}`],
    [`{${TIME},"id":1,"status":"cancelled","a":1}`, `unknown field "a", ${KNOWN}, ${CANCELLED}`],
    ['{"id":1,"__proto__":{"petId":2}}', `unknown field "__proto__", ${KNOWN}`],
    ["7".repeat(61), `expected an order, which is a JSON object, got ${"7".repeat(57)}...`],
    ['{"id":1,"id":2}', /^not valid JSON: Duplicate key 'id'/],
    ['{"id":'.repeat(9_000), /^not valid JSON: Maximum call stack/],
    ['{"id":1}{"id":2}', /^not valid JSON: ./],
  ])("is refused with its fault: %.40s", (text, fault) => expect(parse(text)).toMatch(fault));
});
