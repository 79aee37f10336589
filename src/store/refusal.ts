type RefusalCode =
  | "invalid_input"
  | "key_not_found"
  | "key_not_active"
  | "key_busy"
  | "limits_missing"
  | "limits_not_allowed"
  | "expiry_in_past"
  | "order_already_shipped";

/** Thrown if a change is refused for a reason that callers expect. */
export class Refusal extends Error {
  override readonly name = "Refusal";
  readonly code: RefusalCode;

  constructor(code: RefusalCode, message: string) {
    super(message);
    this.code = code;
  }
}
