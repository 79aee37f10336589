import { join } from "node:path";
import { parseCount } from "../../src/operator/arguments.ts";
import { createProgram, runProgram } from "../../src/operator/command-line.ts";
import { bundleWorker, startServer } from "../support/server.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";
import { judgeOrders, prepareStore } from "./clients.ts";
import { bansOf, violationsOf } from "./referee.ts";
import { World } from "./world.ts";

const program = createProgram(
  "npm run soak --",
  "Runs well-behaved and hostile clients against the service, kills it repeatedly, and checks every answer. Exits with 1 if an answer was wrong.",
)
  .option("--minutes <n>", "how long the clients run", parseCount, 3)
  .option("--seed <n>", "seed of the random number generator", parseCount, 1)
  .action(soak);

/** Prints a table of figures and all violations. */
async function soak({ minutes, seed }: Record<"minutes" | "seed", number>): Promise<void> {
  const folder = temporaryFolder("soak");
  const store = join(folder, "store");
  const { cast, observer } = await prepareStore(store);
  const script = await bundleWorker("src/worker/index.ts", folder);
  const world = new World(() => startServer(script, { store }), minutes, seed);
  try {
    const playing = cast.flatMap((subject) =>
      Array.from({ length: subject.clients }, () => subject.play(world, subject)),
    );
    await Promise.all([...playing, world.killAgainAndAgain()]);
    const orders = await judgeOrders(world, observer);
    const violations = [...world.wrong, ...cast.flatMap(violationsOf), ...orders];
    console.table({
      Answers: cast.flatMap(({ answers }) => answers).length,
      "Requests without an answer": world.lost,
      Kills: world.kills,
      "Banned keys": cast.filter((subject) => bansOf(subject).length > 0).length,
      "Cancelled orders": world.cancelled.size,
      Violations: violations.length,
    });
    for (const violation of violations) process.stdout.write(`- ${violation}\n`);
    if (violations.length > 0) process.exitCode = 1;
  } finally {
    await (await world.server).kill();
  }
}

await runProgram(program, process.argv.slice(2));
