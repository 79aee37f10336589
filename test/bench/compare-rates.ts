import type { Bench } from "./bench.ts";
import { type Request, requestRate } from "./http.ts";
import { medianText, type Result } from "./report.ts";
import { ratios, spreadOf, takeTurns } from "./rounds.ts";
import type { Server } from "./server.ts";

/** Requests of one turn. */
const REQUESTS = 2_000;

/** A request that one of the servers is asked again and again. */
interface Asked {
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
  service: Asked,
  bare: Server,
): Promise<Result> {
  bench.say(what);
  const figures = await takeTurns(bench.rounds, {
    service: () => measure(service),
    bare: () => measure({ server: bare, request: { url: bare.url }, status: 200 }),
  });
  const perSecond = {
    service: figures.service.map((figure) => figure.perSecond),
    bare: figures.bare.map((figure) => figure.perSecond),
  };
  const processorMs = {
    service: figures.service.map((figure) => figure.processorMs),
    bare: figures.bare.map((figure) => figure.processorMs),
  };
  return {
    what,
    service: `${medianText(perSecond.service, "/s")}, ${medianText(processorMs.service, "ms each")}`,
    peer: `${medianText(perSecond.bare, "/s")}, ${medianText(processorMs.bare, "ms each")}`,
    ratio: spreadOf(ratios(perSecond.service, perSecond.bare)),
    processorRatio: spreadOf(ratios(processorMs.bare, processorMs.service)),
    target: { atLeast },
  };
}

async function measure({ server, request, status }: Asked): Promise<Figure> {
  const spentBefore = server.process.processorMs();
  const perSecond = await requestRate(request, status, REQUESTS);
  return { perSecond, processorMs: (server.process.processorMs() - spentBefore) / REQUESTS };
}
