import type { Send } from "../../../src/operator/verify/service-promise.ts";
import type { Clock } from "../../../src/operator/verify/service-promise.ts";
import { type StoreVerifyOptions, verifyStore } from "../../../src/operator/verify/verify-store.ts";
import type { Verification } from "../../../src/operator/verify/verify.ts";
import { openApiDocument } from "../../../src/openapi/document.ts";
import { ClockedService } from "../../process/clocked-service.ts";
import { StoreFolder } from "../store-folder.ts";

export const LISTED_ORIGIN = "https://app.example";

/** The real service. A verification moves the service's clock forward instead of waiting. */
export class ServiceOnTrial implements AsyncDisposable {
  readonly url: string;
  readonly folder: StoreFolder;
  readonly clock: Clock;
  readonly #service: ClockedService;
  #runs = 0;

  private constructor(folder: StoreFolder, service: ClockedService) {
    this.folder = folder;
    this.#service = service;
    this.url = `http://127.0.0.1:${service.port}`;
    let aheadMs = 0;
    this.clock = {
      now: () => Date.now() + aheadMs,
      wait: async (milliseconds, signal) => {
        signal.throwIfAborted();
        aheadMs += milliseconds;
        await service.advance(milliseconds / 1_000);
      },
    };
  }

  static async start(): Promise<ServiceOnTrial> {
    const folder = new StoreFolder();
    await folder.make();
    await folder.ordersJson(["import", "-"], ORDERS);
    const service = await ClockedService.start(folder.path, { CORS_ORIGINS: LISTED_ORIGIN });
    return new ServiceOnTrial(folder, service);
  }

  /** Sends a request to the service, which is started without its static files. */
  readonly send: Send = async (url, init) => {
    const { pathname } = new URL(url);
    if (pathname === "/") return new Response("<!doctype html>", HTML);
    if (pathname === "/openapi.json") return new Response(openApiDocument());
    return fetch(url, init);
  };

  /** Verifies the service with a new key. By default, uses up no limit and places no order. */
  verify(options: Partial<StoreVerifyOptions> = {}): Promise<Verification> {
    return verifyStore({
      url: this.url,
      store: { persistTo: this.folder.path },
      isReadOnly: true,
      origin: LISTED_ORIGIN,
      // A new client address: the service limits the failed authentications of each.
      headers: { "CF-Connecting-IP": `2001:db8:0:${(this.#runs += 1)}::1` },
      clock: this.clock,
      send: this.send,
      ...options,
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#service[Symbol.asyncDispose]();
    this.folder.remove();
  }
}

const HTML = { headers: { "Content-Type": "text/html; charset=utf-8" } };

const ORDERS = `{"id":1,"petId":2,"quantity":3,"shipDate":"2026-11-20T08:30:00.000Z","complete":true}
{"id":2}
{"id":9223372036854775807,"status":"shipped"}
`;
