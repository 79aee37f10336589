import type { Bench } from "./bench.ts";
import { compareRates } from "./compare-rates.ts";
import type { Request } from "./http.ts";
import type { Result } from "./report.ts";
import { Server } from "./server.ts";
import { copyStore } from "./store.ts";

/**
 * A kind of request on a store of ten orders, and the bare Worker to compare the service with. A
 * bare Worker is a minimal Worker without keys, limits and error handling.
 */
interface BareComparison {
  /** The name for the copies of the store that this comparison makes. */
  readonly name: string;
  readonly what: string;
  readonly atLeast: number;
  /** The bare Worker: a file name in `peers/`, without `.ts`. */
  readonly peer: string;
  readonly vars?: Record<string, string>;
  /** The HTTP status that the benchmark expects of every response of the service. */
  readonly status: number;
  /** Prepares the service, and returns the request that the comparison repeats. */
  readonly prepare: (service: Server) => Promise<Request> | Request;
}

/** Compares the service's rate for one kind of request with a bare Worker's, on 32 connections. */
export async function compareWithBareWorker(
  bench: Bench,
  { name, what, atLeast, peer, vars = {}, status, prepare }: BareComparison,
): Promise<Result> {
  const store = await bench.store(10);
  const bundle = await bench.service();
  const bareBundle = await bench.worker(`peers/${peer}`);
  const serviceStore = await copyStore(store, name);
  const bareStore = await copyStore(store, `${name}-bare`);
  return compareRates(bench, {
    what,
    atLeast,
    service: {
      start: () => Server.start(bundle, { store: serviceStore, hasObjects: true, vars }),
      prepare: async (server) => {
        const request = await prepare(server);
        return () => request;
      },
      status,
    },
    peer: {
      start: () => Server.start(bareBundle, { store: bareStore, hasObjects: peer !== "hello" }),
      prepare: ({ url }) => Promise.resolve(() => ({ url })),
      status: 200,
    },
  });
}
