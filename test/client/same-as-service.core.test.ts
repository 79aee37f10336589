import { expect, test } from "vitest";
import { API_ERROR_CODES } from "../../src/client/errors.ts";
import { isOrder } from "../../src/client/order.ts";
import { ERROR_STATUS } from "../../src/worker/errors.ts";
import { orderSchema } from "../../src/worker/orders/order.ts";

test("the client knows every error code of the service, and no other", () => {
  expect([...API_ERROR_CODES].toSorted()).toEqual(Object.keys(ERROR_STATUS).toSorted());
});

const DATE = "2026-11-20T08:30:00.000Z";
const VALUES = [1n, DATE, true, 1, 0.5, null, [], {}];

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
