// This import must be first, because it replaces the WebAssembly module that the service
// instantiates when it is imported.
import "./plain-expansion.ts";

export { default, RateLimiter } from "../../../src/worker/index.ts";
