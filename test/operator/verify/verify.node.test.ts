import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ServiceOnTrial } from "./service-on-trial.ts";

let service: ServiceOnTrial;
beforeAll(async () => {
  service = await ServiceOnTrial.start();
});
afterAll(() => service[Symbol.asyncDispose]());

describe("the service", () => {
  it("keeps every promise", async () => {
    const { isKept, promises } = await service.verify();
    expect(promises.filter(({ result }) => result !== "kept")).toStrictEqual([]);
    expect(isKept).toBe(true);
    expect(promises.length).toBeGreaterThan(30);
  });
});
