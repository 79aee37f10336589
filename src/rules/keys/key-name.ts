/** A name is one line of 1 to 100 characters, is not blank, and has no control characters. */
export function isName(text: string): boolean {
  return text.trim() !== "" && /^[^\p{Cc}\p{Zl}\p{Zp}]{1,100}$/u.test(text);
}
