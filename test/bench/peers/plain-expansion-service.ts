// First, because the service instantiates its WebAssembly when it is imported.
import "./plain-expansion.ts";

export { default, RateLimiter } from "../../../src/worker/index.ts";
