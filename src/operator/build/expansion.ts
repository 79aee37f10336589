import { readFile } from "node:fs/promises";
import { join } from "node:path";
import loadWabt from "wabt";

const SOURCE = join(import.meta.dirname, "../../worker/orders/shorthand/expand-orders.wat");

/** Assembles the WebAssembly module that expands shorthand, the compact text of orders, to JSON. */
export async function assembleExpansion(): Promise<Uint8Array<ArrayBuffer>> {
  const wabt = await loadWabt();
  const module = wabt.parseWat(SOURCE, await readFile(SOURCE, "utf8"));
  try {
    module.validate();
    return new Uint8Array(module.toBinary({}).buffer);
  } finally {
    module.destroy();
  }
}
