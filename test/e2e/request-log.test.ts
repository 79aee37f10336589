import { expect, it, vi } from "vitest";
import { StoreFolder } from "../cli/store-folder.ts";
import { Service } from "./service.ts";

it("npm start -- --log prints a line for each request, and nothing of wrangler's between", async () => {
  const store = new StoreFolder();
  const service = await Service.start(store.path, { args: ["--log"] });
  try {
    const { pro } = service.demoKeys;
    const ids = [await service.list(pro), await service.cancel(pro, "1004")].map(({ headers }) =>
      headers.get("X-Request-Id"),
    );
    const lines = await vi.waitUntil(() => {
      const found = service.stdout.split("\n").filter((line) => line.startsWith("{"));
      return found.length >= 2 && found.map((line) => JSON.parse(line) as object);
    });
    expect(lines).toMatchObject([
      { event: "request", requestId: ids[0], route: "/v1/store/orders", status: 200, plan: "pro" },
      { event: "request", requestId: ids[1], status: 409, code: "order_already_shipped" },
    ]);
    expect(service.stdout + service.stderr).not.toContain("wrangler");
    expect(JSON.stringify(lines)).not.toContain(pro);
  } finally {
    await service.end("SIGTERM");
    store.remove();
  }
});
