// This import must come before the import of the service, because `plain-expansion.ts` replaces the
// WebAssembly module that the imported service instantiates.
import "./plain-expansion.ts";

export { default, RateLimiter } from "../../../src/worker/index.ts";
