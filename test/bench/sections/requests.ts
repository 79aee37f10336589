import { provokeBan } from "../ban.ts";
import { type Bench, listRequest } from "../bench.ts";
import { compareWithBareWorker } from "../bare-worker.ts";
import { answerHeaders } from "../http.ts";
import type { Result } from "../report.ts";

/** Vars with which a ban needs more strikes than the benchmark causes. */
const NEVER_BANNED = { BAN_MIN_STRIKES: "1000000", BAN_MAX_STRIKES: "1000000" };
/** Vars with which a ban lasts a day, longer than the benchmark. */
const LONG_BAN = { BAN_FIRST_SECONDS: "86400" };

/** Compares the rates of admitted, refused and banned requests with bare Workers. */
export async function requests(bench: Bench): Promise<Result[]> {
  const { key, scarceKeys } = await bench.store(10);
  const [refusedKey = "", bannedKey = ""] = scarceKeys;
  const admitted = await compareWithBareWorker(bench, {
    name: "admitted",
    what: "Admitted list of ten: speed of a bare Worker with one object write and one D1 select",
    atLeast: 0.85,
    peer: "bare-request",
    status: 200,
    prepare: ({ url }) => listRequest(url, key),
  });
  const refused = await compareWithBareWorker(bench, {
    name: "refused",
    what: "Refused: speed of a bare Worker with one object call that does nothing",
    atLeast: 0.8,
    peer: "bare-object-call",
    vars: NEVER_BANNED,
    status: 429,
    prepare: async ({ url }) => {
      const request = listRequest(url, refusedKey);
      await answerHeaders(request);
      return request;
    },
  });
  const banned = await compareWithBareWorker(bench, {
    name: "banned",
    what: "Banned: speed of a bare Worker that says hello",
    atLeast: 0.7,
    peer: "hello",
    vars: LONG_BAN,
    status: 429,
    prepare: async ({ url }) => {
      const request = listRequest(url, bannedKey);
      await provokeBan(request);
      return request;
    },
  });
  return [admitted, refused, banned];
}
