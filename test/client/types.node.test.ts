import { expect, expectTypeOf, test } from "vitest";
import { API_ERROR_CODES, type ApiErrorCode } from "../../src/client/errors.ts";
import { isOrder, type Order } from "../../src/client/order.ts";
import { ERROR_STATUS, type ErrorCode } from "../../src/worker/errors.ts";
import { type OrderRecord, orderSchema } from "../../src/worker/orders/order.ts";

// The compiler checks these two; at run time they do nothing.
type Served = Omit<OrderRecord, "status">;
expectTypeOf<{ -readonly [Field in keyof Order]: Order[Field] }>().toEqualTypeOf<{
  [Field in keyof Served]: Exclude<Served[Field], undefined>;
}>();
expectTypeOf<ApiErrorCode>().toEqualTypeOf<ErrorCode>();

test("the client knows every code of the service, and no other", () => {
  expect([...API_ERROR_CODES].toSorted()).toEqual(Object.keys(ERROR_STATUS).toSorted());
});

const DATE = "2026-11-20T08:30:00.000Z";

test.each(Object.keys(orderSchema.shape))(
  "the client takes for %s what the service sends",
  (field) => {
    for (const value of [1n, DATE, true, 1, 0.5, null, [], {}]) {
      const order = { id: 1n, [field]: value };
      const isServed = orderSchema.safeParse(order).success;
      expect(isOrder(order), `${field}: ${typeof value}`).toBe(isServed);
    }
  },
);

test("the client knows every field of the service", () => {
  for (const field of Object.keys(orderSchema.shape)) {
    expect(isOrder({ id: 1n, [field]: Symbol() }), field).toBe(false);
  }
});
