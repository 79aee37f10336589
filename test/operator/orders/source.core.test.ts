import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readElements } from "../../../src/operator/orders/source.ts";

async function* parts(bytes: Uint8Array, cuts: readonly number[]) {
  const sorted = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].sort((a, b) => a - b);
  let start = 0;
  for (const end of [...sorted, bytes.length]) {
    yield bytes.subarray(start, end);
    start = end;
  }
}

async function read(text: string | Uint8Array, cuts: readonly number[] = []) {
  const bytes = typeof text === "string" ? new TextEncoder().encode(text) : text;
  const found = [];
  for await (const elements of readElements(parts(bytes, cuts))) {
    for (const { kind, number, text: json } of elements) found.push([kind, number, json.trim()]);
  }
  return found;
}

const cuts = fc.array(fc.nat(), { maxLength: 20 });
const blank = fc.stringMatching(/^[ \t\r\n]{0,3}$/);

describe("readElements", () => {
  it("splits any JSON array into its elements, however the file arrives in parts", async () => {
    const element = fc
      .json({ stringUnit: "grapheme", maxDepth: 3 })
      .filter((json) => !json.includes("\ufffd"));
    const array = fc.array(element, { maxLength: 6 });
    await fc.assert(
      fc.asyncProperty(array, blank, cuts, async (elements, space, at) => {
        const text = `${space}[${elements.map((json) => space + json + space).join()}]${space}`;
        expect(await read(text, at)).toEqual(
          elements.map((json, index) => ["element", index + 1, json]),
        );
      }),
    );
  });

  it("splits any lines, includes blank lines in line numbers and accepts LF and CRLF", async () => {
    const object = fc.dictionary(fc.string(), fc.string(), { maxKeys: 3 });
    const line = fc.option(object.map((value) => JSON.stringify(value)));
    await fc.assert(
      fc.asyncProperty(
        fc.array(line, { maxLength: 6 }),
        fc.constantFrom("\n", "\r\n"),
        fc.boolean(),
        cuts,
        async (lines, lineEnd, hasFinalEnd, at) => {
          const text =
            lines.map((json) => json ?? " ").join(lineEnd) + (hasFinalEnd ? lineEnd : "");
          expect(await read(text, at)).toEqual(
            lines.flatMap((json, index) => (json === null ? [] : [["line", index + 1, json]])),
          );
        },
      ),
    );
  });

  it.each(["", " \r\n\t\n", "[]", "\ufeff [ \n ] ", "\ufeff"])(
    "finds nothing in %j",
    async (text) => {
      expect(await read(text)).toEqual([]);
    },
  );

  it("skips a byte order mark", async () => {
    expect(await read("\ufeff\n{}")).toEqual([["line", 2, "{}"]]);
  });

  it.each([
    ["[", "element 1: the file ends before the array does"],
    ['[{"id":1}', "element 1: the file ends before the array does"],
    ['[{"id":1},', "element 2: the file ends before the array does"],
    ['[{"id":1},]', "element 2: expected an order"],
    ["[,{}]", "element 1: expected an order"],
    ['[{"id":"]}', "element 1: the file ends before the array does"],
    ["[} [{}]", "element 1: the file ends before the array does"],
    ["[{}] {}", "there is text after the end of the array"],
    ["[{}]]", "there is text after the end of the array"],
    ["[][]", "there is text after the end of the array"],
  ])("refuses %j", async (text, message) => {
    await expect(read(text)).rejects.toThrow(message);
    await expect(read(text, [1, 2, 5])).rejects.toThrow(message);
  });

  it("refuses an element that is too long to be an order, before it is complete", async () => {
    const long = "x".repeat(65_537);
    await expect(read(`{}\n${long}`)).rejects.toThrow("line 2: longer than 65536 characters");
    await expect(read(`[{},"${long}`)).rejects.toThrow("element 2: longer than 65536 characters");
  });

  it("distinguishes escaped from closing quotes, wherever the text is divided", async () => {
    const elements = ['"\\"],"', '{"\\\\":"[\\\\\\""}', '"\\\\"'];
    const text = `[${elements.join()}]`;
    for (let cut = 0; cut <= text.length; cut += 1) {
      const found = await read(text, [cut]);
      expect(found.map(([, , json]) => json)).toEqual(elements);
    }
  });

  it.each([
    ["line 2", [0x0a, 0x7b, 0xff, 0x7d]],
    ["line 1", [0x7b, 0x7d, 0xc3]],
    ["element 2", [0x5b, 0x31, 0x2c, 0xc3, 0x5d]],
  ])("names the element with bytes that are not UTF-8: %s", async (element, bytes) => {
    const message = `${element}: not valid UTF-8`;
    await expect(read(Uint8Array.from(bytes))).rejects.toThrow(message);
    await expect(read(Uint8Array.from(bytes), [3])).rejects.toThrow(message);
  });
});
