import { openLocalStore, type LocalStore } from "../../../src/operator/database/local.ts";
import { createApiKey, revokeApiKey } from "../../../src/operator/key-store/administration.ts";
import { addKeys, changeKey } from "../../../src/operator/key-store/change-key.ts";
import type { Send } from "../../../src/operator/verify/caller.ts";
import type { Clock } from "../../../src/operator/verify/service-promise.ts";
import {
  placeOwnOrders,
  randomOrderId,
  removeOwnOrder,
} from "../../../src/operator/verify/own-orders.ts";
import {
  verify,
  type Verification,
  type VerifyOptions,
} from "../../../src/operator/verify/verify.ts";
import { openApiDocument } from "../../../src/openapi/document.ts";
import { ClockedService } from "../../process/clocked-service.ts";
import type { Scope } from "./sabotages.ts";
import { StoreFolder } from "../store-folder.ts";

/** An origin that `CORS_ORIGINS` of the service lists. */
export const LISTED_ORIGIN = "https://app.example";

/** The real service. A verification moves the service's clock forward instead of waiting. */
export class ServiceOnTrial implements AsyncDisposable {
  readonly url: string;
  readonly folder: StoreFolder;
  readonly clock: Clock;
  readonly #service: ClockedService;
  readonly #store: LocalStore;
  #runs = 0;

  private constructor(folder: StoreFolder, service: ClockedService, store: LocalStore) {
    this.folder = folder;
    this.#service = service;
    this.#store = store;
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
    return new ServiceOnTrial(folder, service, await openLocalStore(folder.path));
  }

  /**
   * Sends a request to the service. Requests for static files get their response from this
   * function, because the service is started without these files.
   */
  readonly send: Send = async (url, init) => {
    const { pathname } = new URL(url);
    if (pathname === "/") return new Response("<!doctype html>", HTML);
    if (pathname === "/openapi.json") return new Response(openApiDocument());
    return fetch(url, init);
  };

  /** Verifies the service with a new key, as `verifyStore` does. */
  async verify(
    scopes: readonly Scope[],
    options: Partial<VerifyOptions> = {},
  ): Promise<Verification> {
    const { orders, keys } = this.#store;
    const settings = { name: "Verification", plan: "free", limits: null, expiresAt: null } as const;
    const { key, record } = createApiKey(settings, new Date());
    await addKeys(keys, [record]);
    const revoke = async () => void (await changeKey(keys, record.id, "revoke", revokeApiKey));
    const orderId = randomOrderId();
    const placed = scopes.includes("orders") ? await placeOwnOrders(orders, orderId) : undefined;
    const verification = verify({
      url: this.url,
      key,
      isKeyNew: true,
      isReadOnly: !scopes.includes("limits"),
      revoke: scopes.includes("revocation") ? revoke : undefined,
      orders: placed,
      origin: LISTED_ORIGIN,
      // Each run of `verify` has a new client address, because the service limits the failed
      // authentications of each address.
      headers: { "CF-Connecting-IP": `2001:db8:0:${(this.#runs += 1)}::1` },
      clock: this.clock,
      send: this.send,
      ...options,
    });
    try {
      return await verification;
    } finally {
      if (placed !== undefined) await removeOwnOrder(orders, orderId);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#store[Symbol.asyncDispose]();
    await this.#service[Symbol.asyncDispose]();
    this.folder.remove();
  }
}

const HTML = { headers: { "Content-Type": "text/html; charset=utf-8" } };

const ORDERS = `{"id":1,"petId":2,"quantity":3,"shipDate":"2026-11-20T08:30:00.000Z","complete":true}
{"id":2}
{"id":9223372036854775807,"status":"shipped"}
`;
