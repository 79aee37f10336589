/** The JSON text around an order's values, without the braces, in the API's sequence of fields. */
const JSON_MEMBERS = {
  id: '"id":',
  petId: ',"petId":',
  quantity: ',"quantity":',
  shipDate: ',"shipDate":"',
  afterShipDate: '"',
  complete: ',"complete":true',
  incomplete: ',"complete":false',
};

/** The character between two orders in shorthand. */
export const SEPARATOR = "i";

/** The JSON for each letter before an optional value. Without the value, the letter is dropped. */
export const PIECES_OF_VALUES = {
  p: JSON_MEMBERS.petId,
  q: JSON_MEMBERS.quantity,
  s: JSON_MEMBERS.shipDate,
};

/** The JSON for each letter that is never dropped. `T` and `Z` occur in ship dates. */
export const PIECES = {
  [SEPARATOR]: `,{${JSON_MEMBERS.id}`,
  T: "T",
  Z: `Z${JSON_MEMBERS.afterShipDate}`,
  t: `${JSON_MEMBERS.complete}}`,
  f: `${JSON_MEMBERS.incomplete}}`,
  n: "}",
};

/** The length of the longest order in shorthand, with its separator. */
export const MAX_SHORTHAND_BYTES =
  "-9223372036854775808p-9223372036854775808q-9223372036854775808s0000-00-00T00:00:00.000Zni"
    .length;

/** Returns the first end of an order at or after `start + minBytes`, or the shorthand's end. */
export function sliceEnd(shorthand: string, start: number, minBytes: number): number {
  const end = shorthand.indexOf(SEPARATOR, start + minBytes);
  return end === -1 ? shorthand.length : end;
}
