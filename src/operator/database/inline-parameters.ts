import { inspect } from "node:util";
import type { Statement } from "./database.ts";

/** A quoted name, a string or a comment, in which `?` is text; else a parameter. */
const QUOTED_OR_PARAMETER = /'[^']*'|"[^"]*"|`[^`]*`|\[[^\]]*\]|--[^\n]*|\/\*[^]*?\*\/|\?\d*/g;

/**
 * Writes a statement's parameters into its SQL as literals, for an interface that takes SQL alone.
 *
 * @throws {TypeError} if a parameter has no exact literal (not finite, NUL or half a surrogate pair
 *   in a text, neither text nor number nor null), or if there are not as many as the SQL asks for.
 */
export function inlineParameters({ sql, params }: Statement): string {
  let next = 0;
  const inlined = sql.replace(QUOTED_OR_PARAMETER, (part) => {
    if (!part.startsWith("?")) return part;
    if (part !== "?") throw new TypeError(`numbered parameter ${part} in: ${sql}`);
    if (next === params.length) throw new TypeError(`too few parameters for: ${sql}`);
    return literal(params[next++]);
  });
  if (next !== params.length) throw new TypeError(`too many parameters for: ${sql}`);
  return inlined;
}

function literal(value: unknown): string {
  if (value === null) return "NULL";
  if (typeof value === "string") {
    if (value.includes("\0")) throw new TypeError("text with a NUL character cannot be stored");
    if (!value.isWellFormed())
      throw new TypeError("text that is not valid Unicode cannot be stored");
    return `'${value.replaceAll("'", "''")}'`;
  }
  if (typeof value === "number" && Number.isFinite(value)) {
    // In parentheses, as `1 -?` with -1 would otherwise begin a comment.
    return `(${value})`;
  }
  throw new TypeError(`no SQL literal for ${inspect(value)}`);
}
