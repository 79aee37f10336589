import { join } from "node:path";
import { parseCount } from "../../src/operator/arguments.ts";
import { createProgram, runProgram } from "../../src/operator/command-line.ts";
import { PROJECT_ROOT } from "../../src/operator/wrangler.ts";
import { bundleWorker } from "../support/bundle.ts";
import { startServer } from "../support/server.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { judgeOrders, playAll, prepareStore } from "./clients.ts";
import { World } from "./world.ts";

/** The minimum milliseconds between two kills of the service. The maximum is twice this time. */
const KILL_EVERY_MS = 12_000;

async function soak({ minutes, seed }: Record<"minutes" | "seed", number>): Promise<void> {
  const folder = temporaryFolder("soak");
  const store = join(folder, "store");
  const cast = await prepareStore(store);
  const bundle = await bundleWorker(PROJECT_ROOT, "src/worker/index.ts", join(folder, "bundle"));
  const start = () => startServer(bundle, { store });
  const world = new World(start, Date.now() + minutes * 60_000, seed);
  try {
    await Promise.all([playAll(world, cast), killAgainAndAgain(world)]);
    report(world, await judgeOrders(world, cast));
  } finally {
    await (await world.server).kill();
  }
}

/** Prints a table of figures and all violations. Any violation sets exit status 1. */
function report(world: World, wrongOrders: readonly string[]): void {
  const answers = world.subjects.flatMap((subject) => subject.answers);
  const statuses = Map.groupBy(answers, ({ status }) => status);
  const violations = [
    ...world.wrong,
    ...world.subjects.flatMap((subject) => subject.violations()),
    ...wrongOrders,
  ];
  console.table({
    "Answers by status": [...statuses].map(([status, of]) => `${status}: ${of.length}`).join(", "),
    "Requests without an answer": world.lost,
    Kills: world.kills,
    "Banned keys": world.subjects.filter(({ bans }) => bans.length > 0).length,
    "Cancelled orders": world.cancelled.size,
    Violations: violations.length,
  });
  for (const violation of violations) process.stdout.write(`- ${violation}\n`);
  if (violations.length > 0) process.exitCode = 1;
}

async function killAgainAndAgain(world: World): Promise<void> {
  for (;;) {
    await world.wait(KILL_EVERY_MS * (1 + world.draw()));
    // Does not kill the service near the end of the soak, so that the last requests get a response.
    if (world.endMs - Date.now() < KILL_EVERY_MS / 2) return;
    await world.restart();
  }
}

const program = createProgram(
  "npm run soak --",
  "Runs well-behaved and hostile clients against the service, kills it repeatedly, and checks every answer. Exits with 1 if an answer was wrong.",
)
  .option("--minutes <n>", "how long the clients run", parseCount, 3)
  .option("--seed <n>", "seed of the random number generator", parseCount, 1)
  .action(soak);

await runProgram(program, process.argv.slice(2));
