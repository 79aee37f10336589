import { describe, expect, it } from "vitest";
import { formatServiceLine, isServiceLine } from "../../../src/operator/start/service-log.ts";

const AT = new Date("2026-11-21T23:20:05.678Z");
const pipe = { isTTY: false } as NodeJS.WriteStream;
const terminal = Object.assign(Object.create(process.stdout), {
  isTTY: true,
  getColorDepth: () => 8,
});

const request = {
  event: "request",
  requestId: "1",
  keyId: "key_isxy5b7tgrodf5lw",
  method: "GET",
  route: "/v1/store/orders",
  status: 200,
  code: null,
  plan: "free",
  window: "minute",
  limit: 60,
  remaining: 59,
  durationMs: 12,
};

describe("a line of the service's log", () => {
  it("is JSON with its time in a pipe", () => {
    const line = formatServiceLine(JSON.stringify(request), AT, pipe);
    expect(JSON.parse(line)).toEqual({ ...request, time: "2026-11-21T23:20:05.678Z" });
    expect(isServiceLine(line)).toBe(true);
  });

  it("is readable on a terminal", () => {
    expect(formatServiceLine(JSON.stringify(request), AT, terminal)).toBe(
      "23:20:05  200  GET    /v1/store/orders  12 ms  key_isxy5b7tgrodf5lw  59 of 60 left, minute",
    );
    const refused = { ...request, keyId: null, status: 401, code: "unauthorized", window: null };
    expect(formatServiceLine(JSON.stringify(refused), AT, terminal)).toBe(
      "23:20:05  \u001b[31m401\u001b[39m  GET    /v1/store/orders  12 ms  no key  unauthorized",
    );
    const event = { event: "housekeeping", importParts: 1, reason: null };
    expect(formatServiceLine(JSON.stringify(event), AT, terminal)).toBe(
      "23:20:05  housekeeping  importParts=1",
    );
  });
});
