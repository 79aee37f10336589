import type { Bench } from "./bench.ts";
import type { Request } from "./http.ts";
import { CONNECTIONS, requestRate } from "./load.ts";
import { medianText, type Result } from "./report.ts";
import { ratios, spreadOf, takeTurns } from "./rounds.ts";
import type { Server } from "./server.ts";

/** The number of requests in one measurement on several connections. */
const REQUESTS = 5_000;
/** The number of requests in one measurement on a single connection, which has a lower rate. */
const REQUESTS_OF_ONE_CONNECTION = 1_500;

/**
 * How many times a comparison starts both of its servers. Two processes with the same work have
 * rates that differ by a few percent. Several starts reduce the effect of these differences.
 */
const STARTS = 3;

/** One of the two servers in a comparison. */
export interface Side {
  readonly start: () => Promise<Server>;
  /**
   * Prepares the server. Returns a function that creates the request with a given index in the
   * load.
   */
  readonly prepare: (server: Server) => Promise<(index: number) => Request>;
  /** The HTTP status that every response must have. */
  readonly status: number;
}

/** A comparison of the service with a peer that handles the same kind of request. */
interface Comparison {
  readonly what: string;
  readonly atLeast: number;
  readonly service: Side;
  readonly peer: Side;
  readonly connections?: number;
}

interface Figure {
  readonly perSecond: number;
  /** The processor time that the server used per request, in milliseconds. */
  readonly processorMs: number;
}

/**
 * Compares how many requests of one kind the service and another Worker answer per second. The
 * other Worker is a bare Worker or an earlier version of the service.
 */
export async function compareRates(bench: Bench, comparison: Comparison): Promise<Result> {
  const { what, atLeast, service, peer, connections = CONNECTIONS } = comparison;
  const figures: Record<"service" | "peer", Figure[]> = { service: [], peer: [] };
  for (let start = 1; start <= STARTS; start += 1) {
    bench.say(`${what} (start ${start} of ${STARTS})`);
    await using serviceServer = await service.start();
    await using peerServer = await peer.start();
    const serviceRequest = await service.prepare(serviceServer);
    const peerRequest = await peer.prepare(peerServer);
    const turns = await takeTurns(bench.rounds, {
      service: () => measure(serviceServer, serviceRequest, service.status, connections),
      peer: () => measure(peerServer, peerRequest, peer.status, connections),
    });
    figures.service.push(...turns.service);
    figures.peer.push(...turns.peer);
  }
  const perSecond = (side: keyof typeof figures) => figures[side].map((figure) => figure.perSecond);
  const processorMs = (side: keyof typeof figures) =>
    figures[side].map((figure) => figure.processorMs);
  const text = (side: keyof typeof figures) =>
    `${medianText(perSecond(side), "/s")}, ${medianText(processorMs(side), "ms each")}`;
  return {
    what,
    service: text("service"),
    peer: text("peer"),
    ratio: spreadOf(ratios(perSecond("service"), perSecond("peer"))),
    processorRatio: spreadOf(ratios(processorMs("peer"), processorMs("service"))),
    target: { atLeast },
  };
}

async function measure(
  server: Server,
  requestAt: (index: number) => Request,
  status: number,
  connections: number,
): Promise<Figure> {
  const count = connections === 1 ? REQUESTS_OF_ONE_CONNECTION : REQUESTS;
  const spentBefore = server.process.processorMs();
  const perSecond = await requestRate({ requestAt, count, connections }, status);
  return { perSecond, processorMs: (server.process.processorMs() - spentBefore) / count };
}
