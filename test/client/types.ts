import { expectTypeOf } from "vitest";
import type { ApiErrorCode } from "../../src/client/errors.ts";
import type { Order } from "../../src/client/order.ts";
import type { ErrorCode } from "../../src/worker/errors.ts";
import type { OrderRecord } from "../../src/schema/order.ts";

// The client declares its own types, because it must not import the service's libraries. This file
// has no tests: `npm run typecheck` fails if the types of client and service differ.
type Served = Omit<OrderRecord, "status">;
expectTypeOf<{ -readonly [Field in keyof Order]: Order[Field] }>().toEqualTypeOf<{
  [Field in keyof Served]: Exclude<Served[Field], undefined>;
}>();
expectTypeOf<ApiErrorCode>().toEqualTypeOf<ErrorCode>();
