import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { InvalidArgumentError } from "commander";
import { createProgram, printJson, runProgram } from "../../src/operator/command-line.ts";
import { PROJECT_ROOT } from "../../src/operator/wrangler.ts";
import { bundleWorker } from "../bench/bundle.ts";
import { type Cast, judgeOrders, playAll, prepareStore } from "./cast.ts";
import { type Figures, figuresOf, toMarkdown } from "./report.ts";
import { Service } from "./service.ts";
import { World } from "./world.ts";

/**
 * The minimum time between two kills of the service, in milliseconds. The maximum is twice this
 * time.
 */
const KILL_EVERY_MS = 12_000;

interface SoakOptions {
  readonly minutes: number;
  readonly seed: number;
  readonly json: boolean;
}

async function soak({ minutes, seed, json }: SoakOptions): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "store-orders-soak-"));
  const bundleFile = join(folder, "bundle.json");
  const store = join(folder, "store");
  await writeFile(bundleFile, JSON.stringify(await bundleWorker("service", PROJECT_ROOT, folder)));
  const cast = await prepareStore(store);
  const service = new Service(bundleFile, store);
  try {
    await service.start();
    const figures = await play(service, cast, minutes, seed);
    if (json) printJson(figures);
    else process.stdout.write(toMarkdown(figures));
    if (figures.violations.length > 0) process.exitCode = 1;
  } finally {
    await service.kill();
    await rm(folder, { recursive: true, force: true });
  }
}

async function play(service: Service, cast: Cast, minutes: number, seed: number): Promise<Figures> {
  const world = new World(service, Date.now() + minutes * 60_000, seed);
  await Promise.all([playAll(world, cast), killAgainAndAgain(world)]);
  // No client has used the observer's key, so the rate limits admit this request.
  const observer = cast.find(({ role }) => role.name === "observing")!;
  const response = await fetch(`${await service.url}/v1/store/orders`, {
    headers: { Authorization: `Bearer ${observer.created.key}` },
  });
  const listed = (await response.json()) as { id: number }[];
  return figuresOf(world, { minutes, seed }, judgeOrders(world, listed));
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

function parseSeed(text: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new InvalidArgumentError("Expected a whole number of up to 9 digits.");
}

const program = createProgram(
  "npm run soak --",
  "Runs well-behaved and hostile clients against the service, kills it repeatedly, and checks every answer. Exits with 1 if an answer was wrong.",
)
  .option("--minutes <n>", "how long the clients run", parseMinutes, 3)
  .option("--seed <n>", "seed of the random number generator", parseSeed, 1)
  .option("--json", "print one JSON value", false)
  .action(soak);

await runProgram(program, process.argv.slice(2));
