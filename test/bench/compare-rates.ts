import type { Bench } from "./bench.ts";
import { type Request, requestRate } from "./http.ts";
import { medianText, type Result } from "./report.ts";
import { ratios, spreadOf, takeTurns } from "./rounds.ts";
import type { Server } from "./server.ts";

/** Requests of one turn. */
const REQUESTS = 2_000;

/** How often both are started anew: two processes with the same work differ by some percent for life. */
const STARTS = 3;

/** A request that a server is asked again and again. */
export interface Asked {
  readonly server: Server;
  readonly request: Request;
  readonly status: number;
}

interface Figure {
  readonly perSecond: number;
  /** Processor time of the server in milliseconds. */
  readonly processorMs: number;
}

/** The rate of one kind of request against that of a bare Worker, on 32 connections. */
export async function compareRates(
  bench: Bench,
  { what, atLeast }: { what: string; atLeast: number },
  startService: () => Promise<Asked>,
  startBare: () => Promise<Server>,
): Promise<Result> {
  const figures: Record<"service" | "bare", Figure[]> = { service: [], bare: [] };
  for (let start = 1; start <= STARTS; start += 1) {
    bench.say(`${what} (start ${start} of ${STARTS})`);
    const asked = await startService();
    await using service = asked.server;
    await using bare = await startBare();
    const turns = await takeTurns(bench.rounds, {
      service: () => measure({ ...asked, server: service }),
      bare: () => measure({ server: bare, request: { url: bare.url }, status: 200 }),
    });
    figures.service.push(...turns.service);
    figures.bare.push(...turns.bare);
  }
  const perSecond = (name: keyof typeof figures) => figures[name].map((figure) => figure.perSecond);
  const processorMs = (name: keyof typeof figures) =>
    figures[name].map((figure) => figure.processorMs);
  const text = (name: keyof typeof figures) =>
    `${medianText(perSecond(name), "/s")}, ${medianText(processorMs(name), "ms each")}`;
  return {
    what,
    service: text("service"),
    peer: text("bare"),
    ratio: spreadOf(ratios(perSecond("service"), perSecond("bare"))),
    processorRatio: spreadOf(ratios(processorMs("bare"), processorMs("service"))),
    target: { atLeast },
  };
}

async function measure({ server, request, status }: Asked): Promise<Figure> {
  const spentBefore = server.process.processorMs();
  const perSecond = await requestRate(request, status, REQUESTS);
  return { perSecond, processorMs: (server.process.processorMs() - spentBefore) / REQUESTS };
}
