import { readFile } from "node:fs/promises";
import type { Bundle } from "../bench/bundle.ts";
import { Server } from "../bench/server.ts";

// The process that the soak kills and restarts. It serves the bundled service on a free port, and
// exits when its parent exits.
const [bundleFile = "", store = ""] = process.argv.slice(2);
process.once("disconnect", () => process.exit());
const bundle = JSON.parse(await readFile(bundleFile, "utf8")) as Bundle;
const server = await Server.start(bundle, { store });
process.send?.(server.url);
