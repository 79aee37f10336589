import { afterAll, beforeAll, expect, it } from "vitest";
import type { PromiseResult, Send } from "../../../src/operator/verify/service-promise.ts";
import { verify } from "../../../src/operator/verify/verify.ts";
import { LIMIT_SABOTAGES, ORDER_SABOTAGES, SABOTAGES } from "./sabotages.ts";
import { type ServiceOnTrial, startServiceOnTrial } from "./service-on-trial.ts";

let service: ServiceOnTrial;
beforeAll(async () => {
  service = await startServiceOnTrial();
});
afterAll(() => service[Symbol.asyncDispose]());

it.for([
  ...Object.entries(LIMIT_SABOTAGES).map((entry) => [...entry, { isReadOnly: false }] as const),
  ...Object.entries(ORDER_SABOTAGES).map((entry) => [...entry, { isWriting: true }] as const),
  ...Object.entries(SABOTAGES).map((entry) => [...entry, {}] as const),
])("a service that %s breaks a promise", async ([, [breaks, sabotage], options]) => {
  // Ends the verification after the first broken promise, which is enough for this test.
  const end = new AbortController();
  const broken: PromiseResult[] = [];
  const report = (found: PromiseResult) => {
    if (found.result !== "broken") return;
    broken.push(found);
    end.abort(new Error("enough"));
  };
  const send = sabotage(service.send);
  const verification = service.verify({ ...options, send, report, signal: end.signal });
  await verification.catch((error: Error) => {
    if (error.message !== "enough") throw error;
  });
  expect(broken).toMatchObject([
    {
      promise: expect.stringMatching(breaks),
      requestId: expect.stringMatching(/./),
      reason: expect.stringMatching(/./),
    },
  ]);
});

it("a list without end is read as far as necessary, and then ended", async () => {
  let under = 0;
  const endless = () => {
    let id = 0;
    under += 1;
    return new ReadableStream({
      pull: (controller) => {
        const orders = Array.from({ length: 500 }, () => `{"id":${(id += 1)},"complete":true}`);
        controller.enqueue(new TextEncoder().encode(`${id === 500 ? "[" : ","}${orders.join()}`));
      },
      cancel: () => {
        under -= 1;
      },
    });
  };
  const send: Send = async (url, init) => {
    const response = await service.send(url, init);
    const isList = response.status === 200 && url.endsWith("/orders") && init.method === "GET";
    return isList ? new Response(endless(), response) : response;
  };
  const orders = { pending: { id: 3_000n, json: '{"id":3000,' }, shippedId: 4_000n };
  const { key } = await service.folder.keysJson("create", "--plan", "free", "--name", "Endless");
  const { url, clock } = service;
  const { promises } = await verify({ url, key, orders, isReadOnly: true, clock, send });
  const broken = promises.filter(({ result }) => result === "broken");
  // The order 3000 is in this list, but not in the database.
  expect(broken.map(({ promise }) => promise)).toEqual([
    "Of simultaneous requests that cancel one order, one returns 204",
    "A list that begins after a cancellation lacks the order",
    "Cancelling a shipped order returns 409, and the order stays",
  ]);
  expect(under).toBe(0);
});

it("an answer of another version ends the verification, whether it comes first, amid others or last", async () => {
  const version = "3f1c6f5e-6f0d-4f1e-9a86-0c8c5a4a1b2d";
  /** Confirms the version, except in responses with this name. Returns the names of all. */
  const tryWithout = async (except?: string) => {
    const seen = new Set<string>();
    const send: Send = async (url, init) => {
      const headers = new Headers(init.headers);
      expect(headers.get("X-Version")).toBe(version);
      // This service has no version.
      headers.delete("X-Version");
      const response = await service.send(url, { ...init, headers });
      const path = new URL(url).pathname.replace(/-\w+-.*/, "");
      const name = `${init.method} ${path} ${response.status}`;
      seen.add(name);
      const confirmed = new Response(response.body, response);
      if (name !== except) confirmed.headers.set("X-Version", version);
      return confirmed;
    };
    const { isKept } = await service.verify({ isReadOnly: false, version, send });
    expect(isKept).toBe(true);
    return [...seen];
  };
  const names = await tryWithout();
  for (const name of ["GET /healthz 200", "GET /v1/store/orders 429", names.at(-1)]) {
    await expect(tryWithout(name), name).rejects.toThrow(`not answered by the version ${version}`);
  }
});

it("a service that cannot be reached gets only one request, and is reported once", async () => {
  let requests = 0;
  const reported: PromiseResult[] = [];
  const send = async () => {
    requests += 1;
    throw new TypeError("fetch failed", { cause: new Error("connect ECONNREFUSED") });
  };
  const report = (found: PromiseResult) => reported.push(found);
  const { isKept, promises } = await service.verify({ isReadOnly: false, send, report });
  expect({ isKept, requests }).toEqual({ isKept: false, requests: 1 });
  expect(reported).toEqual([
    expect.objectContaining({ reason: expect.stringContaining("connect ECONNREFUSED") }),
  ]);
  expect(promises.at(-1)?.reason).toBe("the service does not answer");
});
