/**
 * Reads the key that a reader pasted. Cuts off space around it, and a pasted `Bearer `.
 *
 * @returns a `problem` if the text cannot be a key, with an empty `key`.
 */
export function readKey(text: string): { readonly key: string; readonly problem: string | null } {
  const key = text.trim().replace(/^(?:authorization:\s*)?bearer\s+/i, "");
  if (/^[\x21-\x7e]*$/.test(key)) return { key, problem: null };
  const problem =
    "This is no API key: it has a space, or a character that a key never has and that may be invisible. Copy the key again. Nothing was sent.";
  return { key: "", problem };
}
