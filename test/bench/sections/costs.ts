import { provokeBan } from "../ban.ts";
import { type Bench, listRequest } from "../bench.ts";
import { answerHeaders, type Request } from "../http.ts";
import { costOf, operationsSince, PRODUCTION_VARS } from "../operations.ts";
import type { Cost, Report } from "../report.ts";
import { Server } from "../server.ts";
import { copyStore, type Store } from "../store.ts";

/** The number of requests of each kind. The reported cost is the mean of these requests. */
const REQUESTS = 200;

/**
 * Vars that count every refusal as a strike, but require so many strikes for a ban that the
 * measurement of refusals causes none.
 */
const BANS = {
  BAN_GRACE_SECONDS: "0",
  BAN_MIN_STRIKES: "1000",
  BAN_MAX_STRIKES: "1000",
  BAN_FIRST_SECONDS: "86400",
};

interface Kind {
  readonly request: string;
  readonly status: number;
  readonly send: (server: Server, index: number) => Promise<Request> | Request;
  /** Prepares the service for requests of this kind. */
  readonly prepare?: (server: Server) => Promise<void>;
}

/** Counts the billed operations of each kind of request on a warm isolate, and their cost. */
export async function costs(bench: Bench): Promise<Report> {
  const store = await bench.store(bench.orders / 100);
  await using server = await Server.start(await bench.worker("observed/counted-service"), {
    store: await copyStore(store, "costs"),
    hasObjects: true,
    vars: { ...BANS, ...PRODUCTION_VARS },
  });
  const counted: Cost[] = [];
  for (const kind of kinds(store)) {
    bench.say(`counting the operations of: ${kind.request}`);
    counted.push(await count(server, kind));
  }
  return { results: [], costs: counted };
}

function kinds(store: Store): Kind[] {
  const list = ({ url }: Server) => listRequest(url, store.key);
  const orders = store.orders.toLocaleString("en");
  const tagged = { etag: "" };
  const [refusedKey = "", bannedKey = ""] = store.scarceKeys;
  return [
    { request: `list of ${orders}, unchanged`, status: 200, send: list },
    {
      request: `list of ${orders}, changed before each`,
      status: 200,
      async send(server) {
        await server.process.idle();
        await server.changeOrderList();
        return list(server);
      },
    },
    {
      request: "304",
      status: 304,
      async prepare(server) {
        tagged.etag = (await answerHeaders(list(server))).headers.etag ?? "";
      },
      send: ({ url }) => listRequest(url, store.key, { "If-None-Match": tagged.etag }),
    },
    {
      request: "cancel",
      status: 204,
      send(server, index) {
        const { url, headers } = list(server);
        return { url: `${url}/${index + 10}`, method: "DELETE", headers: { ...headers } };
      },
    },
    {
      request: "401",
      status: 401,
      send: ({ url }, index) => ({
        url: `${url}/v1/store/orders`,
        headers: { "CF-Connecting-IP": `192.0.2.${index % 10}` },
      }),
    },
    {
      request: "refused",
      status: 429,
      prepare: async (server) => void (await answerHeaders(listRequest(server.url, refusedKey))),
      send: ({ url }) => listRequest(url, refusedKey),
    },
    {
      request: "banned",
      status: 429,
      prepare: (server) => provokeBan(listRequest(server.url, bannedKey)),
      send: ({ url }) => listRequest(url, bannedKey),
    },
  ];
}

async function count(server: Server, { request, status, send, prepare }: Kind): Promise<Cost> {
  await prepare?.(server);
  const warmUp = await answerHeaders(await send(server, REQUESTS));
  if (warmUp.statusCode !== status) throw new Error(`${request}: ${warmUp.statusCode}`);
  await server.process.idle();
  await operationsSince(server);
  const requests = request.includes("changed before") ? 10 : REQUESTS;
  for (let index = 0; index < requests; index += 1) {
    const { statusCode } = await answerHeaders(await send(server, index));
    if (statusCode !== status) throw new Error(`${request}: ${statusCode}`);
  }
  await server.process.idle();
  return costOf(request, await operationsSince(server), requests);
}
