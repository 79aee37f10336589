import { rmSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { InvalidArgumentError } from "commander";
import { parseCount } from "../../src/operator/arguments.ts";
import { createProgram, runProgram } from "../../src/operator/command-line.ts";
import { PROJECT_ROOT } from "../../src/operator/wrangler.ts";
import { bundleWorker } from "../bench/bundle.ts";
import { toMarkdown } from "../bench/report.ts";
import { type Cast, judgeOrders, playAll, prepareStore } from "./cast.ts";
import { Service } from "./service.ts";
import { World } from "./world.ts";

/** The minimum milliseconds between two kills of the service. The maximum is twice this time. */
const KILL_EVERY_MS = 12_000;

interface SoakOptions {
  readonly minutes: number;
  readonly seed: number;
}

async function soak({ minutes, seed }: SoakOptions): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "store-orders-soak-"));
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  const store = join(folder, "store");
  const cast = await prepareStore(store);
  const service = new Service(
    await bundleWorker(PROJECT_ROOT, null, join(folder, "bundle")),
    store,
  );
  try {
    const world = new World(service, Date.now() + minutes * 60_000, seed);
    await Promise.all([playAll(world, cast), killAgainAndAgain(world)]);
    report(world, minutes, judgeOrders(world, await listedIds(service, cast)));
  } finally {
    await service.kill();
  }
}

async function listedIds(service: Service, cast: Cast): Promise<Set<number>> {
  // No client has used the observer's key, so the rate limits admit this request.
  const observer = cast.find(({ role }) => role.name === "observing")!;
  const response = await fetch(`${await service.url}/v1/store/orders`, {
    headers: { Authorization: `Bearer ${observer.created.key}` },
  });
  const listed = (await response.json()) as { id: number }[];
  return new Set(listed.map(({ id }) => id));
}

/** Prints a table of figures and all violations. Any violation sets exit status 1. */
function report(world: World, minutes: number, wrongOrders: readonly string[]): void {
  const keys = world.subjects.filter(({ name }) => !name.startsWith("guessing"));
  const wellBehaved = keys.filter(({ isWellBehaved }) => isWellBehaved).length;
  const banned = keys.filter(({ requests }) =>
    requests.some(({ answer }) => answer?.code === "api_key_banned"),
  );
  const statuses = [...world.statuses].toSorted(([one], [other]) => one - other);
  const violations = [
    ...world.wrong,
    ...world.subjects.flatMap((subject) => subject.violations()),
    ...wrongOrders,
  ];
  const rows: [what: string, value: string | number][] = [
    ["Minutes", minutes],
    ["Requests", world.requests],
    ["Answers by status", statuses.map(([status, n]) => `${status}: ${n}`).join(", ")],
    ["Left without an answer by a kill", world.lost],
    ["Dropped by the client", world.dropped],
    ["Times killed and started again", world.service.kills],
    ["Keys of well-behaved clients", wellBehaved],
    ["Keys of hostile clients, of which banned", `${keys.length - wellBehaved}, ${banned.length}`],
    ["Addresses that guess keys", world.subjects.length - keys.length],
    ["Orders cancelled, each once", world.cancelled.size],
    ["Violations", violations.length],
  ];
  process.stdout.write(
    toMarkdown(
      ["Soak", ""],
      rows.map((row) => row.map(String)),
    ),
  );
  for (const violation of violations) process.stdout.write(`- ${violation}\n`);
  if (violations.length > 0) process.exitCode = 1;
}

async function killAgainAndAgain(world: World): Promise<void> {
  for (;;) {
    await world.wait(KILL_EVERY_MS * (1 + world.draw()));
    // Does not kill the service near the end of the soak, so that the last requests get a response.
    if (world.endMs - Date.now() < KILL_EVERY_MS / 2) return;
    await world.service.restart();
  }
}

function parseMinutes(text: string): number {
  const minutes = Number(text);
  if (text.trim() !== "" && minutes > 0 && minutes <= 24 * 60) return minutes;
  throw new InvalidArgumentError("Expected a number of minutes, up to 1440.");
}

const program = createProgram(
  "npm run soak --",
  "Runs well-behaved and hostile clients against the service, kills it repeatedly, and checks every answer. Exits with 1 if an answer was wrong.",
)
  .option("--minutes <n>", "how long the clients run", parseMinutes, 3)
  .option("--seed <n>", "seed of the random number generator", parseCount, 1)
  .action(soak);

await runProgram(program, process.argv.slice(2));
