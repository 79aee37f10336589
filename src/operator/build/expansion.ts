import { readFile } from "node:fs/promises";
import { join } from "node:path";
import loadWabt from "wabt";
import { writeFolder } from "./folder.ts";

const ROOT = join(import.meta.dirname, "..", "..", "..");
const SOURCE = join(ROOT, "src", "worker", "orders", "expand-orders.wat");

/** The folder from which the Worker imports the WebAssembly module. */
const TARGET = join(ROOT, "dist", "wasm");

/** Builds the WebAssembly module and writes it to `dist/wasm`. */
export async function buildExpansion(): Promise<void> {
  await writeFolder(TARGET, new Map([["expand-orders.wasm", await assembleExpansion()]]));
}

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
