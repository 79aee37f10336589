import { expect, expectTypeOf, test } from "vitest";
import { API_ERROR_CODES, type ApiErrorCode } from "../../src/client/errors.ts";
import { isOrder, type Order } from "../../src/client/order.ts";
import { ERROR_STATUS, type ErrorCode } from "../../src/errors.ts";
import { type OrderRecord, orderSchema } from "../../src/orders/order.ts";

test("the client's types are those that the service validates with", () => {
  type Served = Omit<OrderRecord, "status">;
  expectTypeOf<{ -readonly [Field in keyof Order]: Order[Field] }>().toEqualTypeOf<{
    [Field in keyof Served]: Exclude<Served[Field], undefined>;
  }>();
  expectTypeOf<ApiErrorCode>().toEqualTypeOf<ErrorCode>();
});

test("the client knows every field and every code, and no other", () => {
  expect([...API_ERROR_CODES].toSorted()).toEqual(Object.keys(ERROR_STATUS).toSorted());
  const fields = Object.keys(orderSchema.shape);
  expect(fields).toEqual(["id", "petId", "quantity", "shipDate", "complete"]);
  for (const field of fields) expect(isOrder({ id: 1n, [field]: Symbol() })).toBe(false);
});
