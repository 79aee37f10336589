import type { Bench } from "./bench.ts";
import { type Request, requestRate } from "./http.ts";
import { medianText, type Result } from "./report.ts";
import { ratios, spreadOf, takeTurns } from "./rounds.ts";
import { Server } from "./server.ts";
import { copyStore } from "./store.ts";

/** Requests of one turn. */
const REQUESTS = 5_000;

/** How often both are started anew: two processes with the same work differ by some percent for life. */
const STARTS = 3;

/** A kind of request, on a store of ten orders, and the bare Worker that it is held against. */
export interface Comparison {
  /** Names its copies of the store. */
  readonly name: string;
  readonly what: string;
  readonly atLeast: number;
  /** One of `peers/`. */
  readonly peer: string;
  readonly vars?: Record<string, string>;
  /** Of every answer of the service. */
  readonly status: number;
  /** Brings about the state that the request is to meet. */
  readonly prepare: (service: Server) => Promise<Request> | Request;
}

interface Figure {
  readonly perSecond: number;
  /** Processor time of the server in milliseconds. */
  readonly processorMs: number;
}

/** The rate of one kind of request against that of a bare Worker, on 32 connections. */
export async function compareRates(bench: Bench, comparison: Comparison): Promise<Result> {
  const { name, what, atLeast, peer, vars = {}, status, prepare } = comparison;
  const store = await bench.store(10);
  const serviceStore = await copyStore(store, name);
  const bareStore = await copyStore(store, `${name}-bare`);
  const figures: Record<"service" | "bare", Figure[]> = { service: [], bare: [] };
  for (let start = 1; start <= STARTS; start += 1) {
    bench.say(`${what} (start ${start} of ${STARTS})`);
    await using service = await Server.start(await bench.service(), {
      store: serviceStore,
      hasObjects: true,
      vars,
    });
    await using bare = await Server.start(await bench.worker(`peers/${peer}`), {
      store: bareStore,
      hasObjects: peer !== "hello",
    });
    const request = await prepare(service);
    const turns = await takeTurns(bench.rounds, {
      service: () => measure(service, request, status),
      bare: () => measure(bare, { url: bare.url }, 200),
    });
    figures.service.push(...turns.service);
    figures.bare.push(...turns.bare);
  }
  const perSecond = (side: keyof typeof figures) => figures[side].map((figure) => figure.perSecond);
  const processorMs = (side: keyof typeof figures) =>
    figures[side].map((figure) => figure.processorMs);
  const text = (side: keyof typeof figures) =>
    `${medianText(perSecond(side), "/s")}, ${medianText(processorMs(side), "ms each")}`;
  return {
    what,
    service: text("service"),
    peer: text("bare"),
    ratio: spreadOf(ratios(perSecond("service"), perSecond("bare"))),
    processorRatio: spreadOf(ratios(processorMs("bare"), processorMs("service"))),
    target: { atLeast },
  };
}

async function measure(server: Server, request: Request, status: number): Promise<Figure> {
  const spentBefore = server.process.processorMs();
  const perSecond = await requestRate(request, status, REQUESTS);
  return { perSecond, processorMs: (server.process.processorMs() - spentBefore) / REQUESTS };
}
