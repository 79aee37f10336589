import { assembleExpansion } from "../../../../src/operator/build/program.ts";
import { type Expansion, OrderExpander } from "../../../../src/worker/orders/list-stream.ts";

/** The global `WebAssembly`, with a type of its own, because the types of Node lack it. */
const { WebAssembly } = globalThis as unknown as {
  WebAssembly: { instantiate(bytes: Uint8Array): Promise<{ instance: { exports: Expansion } }> };
};
const { instance } = await WebAssembly.instantiate(await assembleExpansion());
export const expander = new OrderExpander(instance.exports);
