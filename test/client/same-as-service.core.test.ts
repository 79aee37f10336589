import { expect, expectTypeOf, test } from "vitest";
import type { ApiErrorCode } from "../../src/client/errors.ts";
import type { CallOptions } from "../../src/client/options.ts";
import { isOrder, type Order, toOrderId } from "../../src/client/order.ts";
import { INT64_MAX, INT64_MIN, parseInt64 } from "../../src/rules/int64.ts";
import { type OrderRecord, orderSchema } from "../../src/rules/order.ts";
import type { ErrorCode } from "../../src/rules/error-codes.ts";

const VALUES = [1n, "2026-11-20T08:30:00.000Z", true, 1, 0.5, null, [], {}];

test.each(Object.keys(orderSchema.shape))(
  "the client accepts in %s exactly the types that the service sends",
  (field) => {
    const accepts = (isValid: (order: unknown) => boolean) =>
      VALUES.filter((value) => isValid({ id: 1n, [field]: value }));
    const served = accepts((order) => orderSchema.safeParse(order).success);
    expect(served).toHaveLength(1);
    expect(accepts(isOrder)).toEqual(served);
  },
);

test("the client accepts exactly the ids that the service accepts", () => {
  const limits = [INT64_MIN, INT64_MAX].flatMap((limit) => [limit - 1n, limit, limit + 1n]);
  const texts = [...limits.map(String), ..."0 -0 1 -1 +1 01 1.0 1e3 x".split(" "), " 1", ""];
  const clientReads = (text: string) => {
    try {
      return toOrderId(text);
    } catch (error) {
      expect(error).toBeInstanceOf(RangeError);
      return undefined;
    }
  };
  expect(texts.map(clientReads)).toEqual(texts.map(parseInt64));
});

// An option may be `undefined`, so that callers compile with `exactOptionalPropertyTypes`.
expectTypeOf<Required<CallOptions>["signal"]>().toEqualTypeOf<AbortSignal | undefined>();

// The client declares its own types, because it must not import the service's libraries.
// `npm run typecheck` fails if the types of client and service differ.
type Served = Omit<OrderRecord, "status">;
expectTypeOf<{ -readonly [Field in keyof Order]: Order[Field] }>().toEqualTypeOf<{
  [Field in keyof Served]: Exclude<Served[Field], undefined>;
}>();
expectTypeOf<ApiErrorCode>().toEqualTypeOf<ErrorCode>();
