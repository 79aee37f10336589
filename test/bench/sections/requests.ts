import type { Bench } from "../bench.ts";
import type { Worker } from "../bundle.ts";
import { compareRates } from "../compare.ts";
import { listRequest, provokeBan, type Request, send } from "../load.ts";
import type { Result } from "../report.ts";

/** A kind of request, and a minimal Worker without keys and limits to compare the service with. */
interface Kind {
  readonly what: string;
  readonly atLeast: number;
  readonly peer: Worker;
  readonly vars: Readonly<Record<string, string>>;
  readonly status: number;
  readonly key: string;
  readonly prepare: (request: Request) => Promise<unknown>;
}

/** Compares the rates of admitted, refused and banned requests with bare Workers. */
export async function requests(bench: Bench): Promise<Result[]> {
  const { unlimited, scarce } = bench.keys;
  const kinds: Kind[] = [
    {
      what: "Admitted list of ten: rate, as a multiple of a bare Worker's with one object write and one D1 select",
      atLeast: 0.85,
      peer: "peers/bare-request",
      vars: {},
      status: 200,
      key: unlimited[0]?.key ?? "",
      prepare: send,
    },
    {
      what: "Refused: rate, as a multiple of a bare Worker's with one object call that does nothing",
      atLeast: 0.8,
      peer: "peers/bare-object-call",
      // These values prevent a ban, because the benchmark causes fewer strikes.
      vars: { BAN_MIN_STRIKES: "1000000", BAN_MAX_STRIKES: "1000000" },
      status: 429,
      key: scarce[0]?.key ?? "",
      prepare: send,
    },
    {
      what: "Banned: rate, as a multiple of a bare Worker's that says hello",
      atLeast: 0.7,
      peer: "peers/hello",
      vars: { BAN_FIRST_SECONDS: "86400" },
      status: 429,
      key: scarce[1]?.key ?? "",
      prepare: provokeBan,
    },
  ];
  const results: Result[] = [];
  for (const { what, atLeast, peer, vars, status, key, prepare } of kinds) {
    const service = {
      start: () => bench.serve({ vars }),
      prepare: async ({ url }: { url: string }) => {
        const request = listRequest(url, key);
        await prepare(request);
        return request;
      },
      status,
    };
    const bare = {
      start: () => bench.serve({ worker: peer }),
      prepare: async ({ url }: { url: string }) => ({ url }),
      status: 200,
    };
    results.push(await compareRates(bench, { what, atLeast, service, peer: bare }));
  }
  return results;
}
