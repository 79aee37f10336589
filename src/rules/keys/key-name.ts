import { SECRET_PREFIX } from "./secret.ts";

/** What `isName` asks for, for messages. */
export const NAME_RULE =
  "1 to 100 characters, not only spaces, without control and direction characters, and no API key";

const SECRET_IN_NAME = new RegExp(`${SECRET_PREFIX}[a-z2-7]{20}`, "i");

/**
 * Returns whether a text is a key's name: one line of 1 to 100 characters, not only spaces, without
 * control characters, and without those that change the direction of text and so show another name. An API key in a
 * name would be stored and shown.
 */
export function isName(text: string): boolean {
  return (
    !SECRET_IN_NAME.test(text) &&
    text.trim() !== "" &&
    /^[^\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Bidi_Control}]{1,100}$/u.test(text)
  );
}
