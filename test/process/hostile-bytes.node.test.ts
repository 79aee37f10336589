import { connect } from "node:net";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ERROR_STATUS } from "../../src/worker/errors.ts";
import type { Server } from "../bench/server.ts";
import { StoreFolder } from "../operator/store-folder.ts";
import { AMPLE, createKeys } from "./create-keys.ts";
import { serveWorker, SERVICE } from "./worker-server.ts";

const store = new StoreFolder();
const { client } = await createKeys(store, { client: AMPLE });

let server: Server;
let port: number;

beforeAll(async () => {
  server = await serveWorker(SERVICE, store.path);
  port = Number(new URL(server.url).port);
});

afterAll(async () => {
  await server[Symbol.asyncDispose]();
  store.remove();
});

/** A placeholder for 20,000 characters, which keeps the reports of failed tests short. */
const LONG = "{long}";
const expand = (request: string) => request.replaceAll(LONG, "a".repeat(20_000));

const anyByte = fc.integer({ min: 0, max: 0xff });
const bytesOf = (arbitrary: fc.Arbitrary<number>, maxLength: number) =>
  fc.array(arbitrary, { maxLength }).map((bytes) => String.fromCharCode(...bytes));

const anyMethod = fc.oneof(
  { weight: 8, arbitrary: fc.constantFrom("GET", "HEAD", "DELETE") },
  fc.constantFrom("TRACE", "CONNECT", "TRACK", "get", "BREW", "", "GET GET", "PRI", "M-SEARCH"),
  bytesOf(anyByte, 8),
);

const anyTarget = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom("/v1/store/orders", "/v1/store/orders/1", "/v1") },
  fc.constantFrom("*", "", "//", "http://[", "http://other.example/v1", "/v1/../v1/store/orders"),
  bytesOf(fc.integer({ min: 0x21, max: 0xff }), 30).map((text) => `/v1/store/orders/${text}`),
  fc
    .constantFrom("%", "%ff", "%00", "%0a", "%c0%af", "1%0d%0aX-Evil:%201")
    .map((id) => `/v1/${id}`),
  fc.constantFrom(`/v1/${LONG}`, `/v1/store/orders/${LONG}`),
);

const anyVersion = fc.oneof(
  { weight: 16, arbitrary: fc.constant("HTTP/1.1") },
  fc.constantFrom("HTTP/1.0", "HTTP/0.9", "HTTP/2.0", "HTTP/9.9", "", "HTP/1.1", "http/1.1"),
);

const HEADER_LINES = [
  [`Authorization: Bearer ${client.key}`, "Authorization: Basic eDp5", "Authorization:", "Host: a"],
  ["Content-Length: 5", "Content-Length: -1", "Content-Length: 99999999999999999999"],
  ["Transfer-Encoding: chunked", "Transfer-Encoding: chunked, gzip", "Expect: 100-continue"],
  ["Connection: keep-alive", "Connection: Upgrade", "Upgrade: websocket", "Upgrade: h2c"],
  ["CF-Connecting-IP: 192.0.2.1", "CF-Connecting-IP: \xff", "X-Request-Id: a\tb", ": none"],
  ["If-None-Match: *", 'If-None-Match: "\xe9"', "Range: bytes=0-1", "no colon", " folded: 1"],
].flat();

const anyLine = fc.oneof(
  { weight: 16, arbitrary: fc.constantFrom(...HEADER_LINES) },
  bytesOf(fc.integer({ min: 0x20, max: 0xff }), 40).map((text) => `Authorization: Bearer ${text}`),
  bytesOf(anyByte, 40).map((text) => `X-Text: ${text}`),
  bytesOf(anyByte, 20),
  fc.constant(`X-Long: ${LONG}`),
);

const anyRequest = fc
  .record({
    method: anyMethod,
    target: anyTarget,
    version: anyVersion,
    lines: fc.array(anyLine, { maxLength: 6 }),
    newline: fc.oneof({ weight: 16, arbitrary: fc.constant("\r\n") }, fc.constantFrom("\n", "\r")),
    body: fc.oneof({ weight: 3, arbitrary: fc.constant("") }, bytesOf(anyByte, 40)),
  })
  .map(({ method, target, version, lines, newline, body }) =>
    [
      `${method} ${target} ${version}`,
      "Host: localhost",
      "Connection: close",
      ...lines,
      "",
      body,
    ].join(newline),
  );

/** The local server before the Worker answers two `Host`s, `*`, `http://[` and CONNECT with 500. */
const FAILS_BEFORE_US = /^CONNECT |[\r\n]Host: a|^\S+ (?:\*|http:\/\/\[) /;

/** A response counts as complete if no further byte arrives for this many milliseconds. */
const SILENCE_MS = 250;
const TIMEOUT_MS = 5_000;

/**
 * Sends bytes to the service and returns all received bytes, decoded as Latin-1.
 *
 * @param patienceMs how long to wait for the first byte. The service never answers half a request.
 */
function converse(bytes: Buffer, patienceMs = 1_000): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  let received = "";
  const timer = setTimeout(() => reject(new Error("The service does not end.")), TIMEOUT_MS);
  const socket = connect(port, "127.0.0.1");
  const end = () => resolve(received);
  // The service may close the connection before it has read all bytes.
  socket.setTimeout(patienceMs, end).on("error", end).on("close", end);
  socket.on("data", (data) => {
    received += data.toString("latin1");
    socket.setTimeout(SILENCE_MS);
  });
  socket.write(bytes);
  return promise.finally(() => {
    clearTimeout(timer);
    socket.destroy();
  });
}

interface WireAnswer {
  readonly status: number;
  /** The lower-case names of all header lines. */
  readonly headers: readonly string[];
  readonly body: string;
}

function firstAnswer(received: string): WireAnswer | null {
  const [, status, head = "", body = ""] =
    /^HTTP\/1\.1 (\d{3}) [^\r\n]*\r\n([^]*?)\r\n\r\n([^]*)$/.exec(
      received.replace(/^HTTP\/1\.1 100 Continue\r\n\r\n/, ""),
    ) ?? [];
  if (status === undefined) return null;
  const headers = head.split("\r\n").map((line) => line.split(":", 1).join("").toLowerCase());
  return { status: Number(status), headers, body };
}

/** False for a response of the local server before the Worker. */
const isOurs = ({ headers }: WireAnswer) => headers.includes("x-request-id");

function expectDocumented({ status, headers, body }: WireAnswer, request: string): void {
  expect([200, 204, 304, 401, 404, 405, 409, 429]).toContain(status);
  expect(headers).toStrictEqual([...new Set(headers)]);
  expect(headers).not.toContain("x-evil");
  if (status < 400 || request.startsWith("HEAD ")) return;
  const [json = ""] =
    /\{"code".*?"status":\d+\}/s.exec(Buffer.from(body, "latin1").toString("utf8")) ?? [];
  const error = JSON.parse(json) as Record<string, unknown>;
  expect(Object.keys(error).toSorted()).toStrictEqual(["code", "message", "status"]);
  expect(ERROR_STATUS).toHaveProperty(String(error["code"]), status);
}

const AUTHORIZED = Buffer.from(
  `GET /v1/store/orders HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer ${client.key}\r\n\r\n`,
);

test("for any bytes, the service responds as documented or not at all, and runs on", async () => {
  // Some conversations with the server wait for a second, so this many run at the same time.
  const AT_ONCE = 120;
  const ours = new Set<number>();
  const anyBytes = fc.oneof({ weight: 8, arbitrary: anyRequest }, bytesOf(anyByte, 200));
  await fc.assert(
    fc.asyncProperty(
      fc.array(anyBytes, { minLength: AT_ONCE, maxLength: AT_ONCE }),
      async (requests) => {
        const received = await Promise.all(
          requests.map((request) => converse(Buffer.from(expand(request), "latin1"))),
        );
        received.forEach((text, index) => {
          const answer = firstAnswer(text);
          if (answer === null) return;
          if (isOurs(answer)) {
            expectDocumented(answer, requests[index]!);
            ours.add(answer.status);
          } else if (!FAILS_BEFORE_US.test(requests[index]!)) {
            expect([400, 413, 414, 431, 501, 505]).toContain(answer.status);
          }
        });
        const { status, body } = firstAnswer(await converse(AUTHORIZED, 4_000))!;
        expect([status, body]).toStrictEqual([200, expect.stringContaining("[]")]);
      },
    ),
    { numRuns: 4, endOnFailure: true },
  );
  expect([...ours]).toEqual(expect.arrayContaining([401, 429]));
}, 120_000);
