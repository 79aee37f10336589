import type { Clock, Send } from "../../../src/operator/verify/service-promise.ts";
import { type StoreVerifyOptions, verifyStore } from "../../../src/operator/verify/verify-store.ts";
import { openApiDocument } from "../../../src/openapi/document.ts";
import { ClockedService } from "../../process/clocked-service.ts";
import { StoreFolder } from "../store-folder.ts";

export const LISTED_ORIGIN = "https://app.example";
const HTML = { headers: { "Content-Type": "text/html; charset=utf-8" } };
const ORDERS = `{"id":1,"petId":2,"quantity":3,"shipDate":"2026-11-20T08:30:00.000Z","complete":true}
{"id":2}
{"id":9223372036854775807,"status":"shipped"}
`;

export type ServiceOnTrial = Awaited<ReturnType<typeof startServiceOnTrial>>;

/** Starts the real service. A verification moves the service's clock forward instead of waiting. */
export async function startServiceOnTrial() {
  const folder = new StoreFolder();
  await folder.ordersJson(["import", "-"], ORDERS);
  const service = await ClockedService.start(folder.path, { CORS_ORIGINS: LISTED_ORIGIN });
  const url = `http://127.0.0.1:${service.port}`;
  let aheadMs = 0;
  const clock: Clock = {
    now: () => Date.now() + aheadMs,
    wait: async (milliseconds, signal) => {
      signal.throwIfAborted();
      aheadMs += milliseconds;
      await service.advance(milliseconds / 1_000);
    },
  };
  /** Sends a request to the service, which is started without its static files. */
  const send: Send = async (address, init) => {
    const { pathname } = new URL(address);
    if (pathname === "/") return new Response("<!doctype html>", HTML);
    if (pathname === "/openapi.json") return new Response(openApiDocument());
    return fetch(address, init);
  };
  let runs = 0;
  /** Verifies the service with a new key. By default, uses up no limit and places no order. */
  const verify = (options: Partial<StoreVerifyOptions> = {}) =>
    verifyStore({
      url,
      store: { persistTo: folder.path },
      isReadOnly: true,
      origin: LISTED_ORIGIN,
      // A new client address: the service limits the failed authentications of each.
      headers: { "CF-Connecting-IP": `2001:db8:0:${(runs += 1)}::1` },
      clock,
      send,
      ...options,
    });
  const dispose = async () => {
    await service[Symbol.asyncDispose]();
    folder.remove();
  };
  return { url, folder, clock, send, verify, [Symbol.asyncDispose]: dispose };
}
