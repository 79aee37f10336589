import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { PromiseResult } from "../../../src/operator/verify/verify.ts";
import { SABOTAGES } from "./sabotages.ts";
import { ServiceOnTrial } from "./service-on-trial.ts";

let service: ServiceOnTrial;
beforeAll(async () => {
  service = await ServiceOnTrial.start();
});
afterAll(() => service[Symbol.asyncDispose]());

it("the service keeps every promise", async () => {
  const { isKept, promises } = await service.verify(["limits", "orders", "revocation"]);
  expect(promises.filter(({ result }) => result !== "kept")).toStrictEqual([]);
  expect(isKept).toBe(true);
  expect(promises.length).toBeGreaterThan(30);
});

it.for(SABOTAGES)("a service that $does breaks a promise", async ({ scope, breaks, sabotage }) => {
  const scopes = scope === undefined ? [] : [scope];
  // Ends the verification after the first broken promise, which is enough for this test.
  const end = new AbortController();
  const broken: PromiseResult[] = [];
  const report = (found: PromiseResult) => {
    if (found.result !== "broken") return;
    broken.push(found);
    end.abort(new Error("enough"));
  };
  const send = sabotage(service.send);
  await service.verify(scopes, { send, report, signal: end.signal }).catch((error: unknown) => {
    if (error !== end.signal.reason) throw error;
  });
  expect(broken).toMatchObject([
    {
      promise: expect.stringMatching(breaks),
      requestId: expect.stringMatching(/./),
      reason: expect.stringMatching(/./),
    },
  ]);
});

describe("a service that cannot be reached", () => {
  it("gets only one request", async () => {
    let requests = 0;
    const send = async () => {
      requests += 1;
      throw new TypeError("fetch failed", { cause: new Error("connect ECONNREFUSED") });
    };
    const { isKept, promises } = await service.verify([], { send });
    expect(isKept).toBe(false);
    expect(requests).toBe(1);
    const [first] = promises.filter(({ result }) => result !== "untried");
    expect(first?.reason).toContain("connect ECONNREFUSED");
    expect(promises.at(-1)?.reason).toBe("the service does not answer");
  });
});
