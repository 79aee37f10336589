/**
 * Returns whether a text is a key's name: one line of 1 to 100 characters, not only spaces, without
 * control characters, and without those that change the direction of text and so show another name.
 */
export function isName(text: string): boolean {
  return text.trim() !== "" && /^[^\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Bidi_Control}]{1,100}$/u.test(text);
}
