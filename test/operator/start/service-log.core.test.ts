import { describe, expect, it } from "vitest";
import { formatServiceLine, isServiceLine } from "../../../src/operator/start/dev-server.ts";
import { REQUEST } from "../../support/request-record.ts";

const AT = new Date("2026-11-21T23:20:05.678Z");
const pipe = { isTTY: false } as NodeJS.WriteStream;
const terminal = Object.assign(Object.create(process.stdout), {
  isTTY: true,
  getColorDepth: () => 8,
});

describe("a line of the service's log", () => {
  it("is JSON with its time in a pipe", () => {
    const line = formatServiceLine(JSON.stringify(REQUEST), AT, pipe);
    expect(JSON.parse(line)).toEqual({ ...REQUEST, time: "2026-11-21T23:20:05.678Z" });
    expect(isServiceLine(line)).toBe(true);
  });

  it("is readable on a terminal", () => {
    expect(formatServiceLine(JSON.stringify(REQUEST), AT, terminal)).toBe(
      "23:20:05  200  GET    /v1/store/orders  10 ms  key_petspetspetspets  50 of 60 left, minute",
    );
    const refused = { ...REQUEST, keyId: null, status: 401, code: "unauthorized", window: null };
    expect(formatServiceLine(JSON.stringify(refused), AT, terminal)).toBe(
      "23:20:05  \u001b[31m401\u001b[39m  GET    /v1/store/orders  10 ms  no key  unauthorized",
    );
    const event = { event: "housekeeping", importParts: 1, reason: null };
    expect(formatServiceLine(JSON.stringify(event), AT, terminal)).toBe(
      "23:20:05  housekeeping  importParts=1",
    );
  });
});
