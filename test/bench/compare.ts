import type { Bench } from "./bench.ts";
import { CONNECTIONS, type Request, requestRate } from "./load.ts";
import { medianText, type Result, type Spread, spreadOf } from "./report.ts";
import type { Server } from "./server.ts";

/** The number of requests in one measurement. */
const REQUESTS = 5_000;

/** Each server starts this often, because equal processes differ in speed by a few percent. */
const STARTS = 3;

/**
 * Warms up each contestant, then measures all of them in every round, so that other work on the
 * machine affects them alike. Every second round has the reverse order.
 */
export async function takeTurns<Name extends string, Figure>(
  rounds: number,
  contestants: Readonly<Record<Name, () => Promise<Figure>>>,
): Promise<Record<Name, Figure[]>> {
  const names = Object.keys(contestants) as Name[];
  const figures = Object.fromEntries(names.map((name) => [name, []])) as unknown as Record<
    Name,
    Figure[]
  >;
  for (const name of names) await contestants[name]();
  for (let round = 0; round < rounds; round += 1) {
    for (const name of round % 2 === 0 ? names : names.toReversed()) {
      figures[name].push(await contestants[name]());
    }
  }
  return figures;
}

/** Returns the spread of the ratios of `figures` to `others`, with one ratio for each round. */
export function ratiosOf(figures: readonly number[], others: readonly number[]): Spread {
  return spreadOf(figures.map((figure, round) => figure / (others[round] ?? Number.NaN)));
}

/** One of the two servers in a comparison of rates. */
export interface Side {
  readonly start: () => Promise<Server>;
  /** Prepares the server. Returns the request to send. */
  readonly prepare: (server: Server) => Promise<Request>;
  /** The HTTP status that every response must have. */
  readonly status: number;
}

interface RateComparison {
  readonly what: string;
  readonly atLeast: number;
  readonly service: Side;
  readonly peer: Side;
  readonly connections?: number;
}

/** Compares how many requests of one kind the service and another Worker answer per second. */
export async function compareRates(bench: Bench, comparison: RateComparison): Promise<Result> {
  const { what, atLeast, service, peer, connections = CONNECTIONS } = comparison;
  const rates = { service: [] as number[], peer: [] as number[] };
  const processorMs = { service: [] as number[], peer: [] as number[] };
  for (let start = 1; start <= STARTS; start += 1) {
    bench.say(`${what} (start ${start} of ${STARTS})`);
    await using serviceServer = await service.start();
    await using peerServer = await peer.start();
    const measure = async (server: Server, { prepare, status }: Side) => {
      const request = await prepare(server);
      return async () => {
        const spentBefore = server.process.processorMs();
        const perSecond = await requestRate(request, REQUESTS, connections, status);
        return { perSecond, spent: (server.process.processorMs() - spentBefore) / REQUESTS };
      };
    };
    const turns = await takeTurns(bench.rounds, {
      service: await measure(serviceServer, service),
      peer: await measure(peerServer, peer),
    });
    for (const side of ["service", "peer"] as const) {
      rates[side].push(...turns[side].map(({ perSecond }) => perSecond));
      processorMs[side].push(...turns[side].map(({ spent }) => spent));
    }
  }
  const text = (side: keyof typeof rates) =>
    `${medianText(rates[side], "/s")}, ${medianText(processorMs[side], "ms each")}`;
  return {
    what,
    service: text("service"),
    peer: text("peer"),
    ratio: ratiosOf(rates.service, rates.peer),
    processorRatio: ratiosOf(processorMs.peer, processorMs.service),
    target: { atLeast },
  };
}
