import fc from "fast-check";
import { expect, test } from "vitest";
import { readKey } from "../../src/site/script/key-field.ts";
import { OrderList } from "../../src/site/script/order-list.ts";

function listOf(...parts: readonly string[]): OrderList {
  const list = new OrderList();
  for (const part of parts) list.read(part);
  return list;
}

test.each([
  [" sord_1\n", "sord_1", false],
  ["Authorization: bearer  sord_1", "sord_1", false],
  ["sord_\u200b1", "", true],
  ["sord_ 1", "", true],
])("of the pasted text %j, the key is %j", (text, key, isWrong) => {
  expect(readKey(text)).toEqual({ key, problem: isWrong ? expect.any(String) : null });
});

test("a list in any parts keeps every digit, counts its orders and finds an id, and no neighbour of it", () => {
  const ids = fc.uniqueArray(fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n), { maxLength: 8 });
  // Braces, ids and escaped quotes inside a string belong to no order.
  const notes = fc.constantFrom("", 'a }], { "id":2 } \\" {', "5}");
  fc.assert(
    fc.property(ids, notes, fc.integer({ min: 1, max: 90 }), (all, note, length) => {
      const rest = `"petId":7,"note":${JSON.stringify(note)}`;
      const text = `[${all.map((id) => `{"id":${id},${rest}}`).join()}]`;
      const list = listOf(...(text.match(new RegExp(`[^]{1,${length}}`, "g")) ?? []));
      expect(list.isWhole).toBe(true);
      const broken = [text.slice(0, -1), text.slice(1), text.replace("},{", "} {")];
      expect(broken.map((one) => listOf(one).isWhole)).toEqual([false, false, all.length < 2]);
      const shown = (id: bigint) => ({ id: String(id), petId: "7", note });
      expect(list.total).toBe(all.length);
      expect(list.first(3)).toStrictEqual(all.slice(0, 3).map(shown));
      for (const id of [...all, ...all.map((one) => one ^ 1n), 2n, 7n]) {
        expect(list.find(String(id))).toStrictEqual(all.includes(id) ? shown(id) : null);
      }
    }),
  );
});
