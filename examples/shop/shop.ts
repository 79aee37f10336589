/** A shop that places and ships orders, hears of cancellations, and hands out API keys. */
export default {
  async fetch(request, env): Promise<Response> {
    if (request.headers.get("Authorization") !== `Bearer ${env.SHOP_TOKEN}`) {
      return new Response("Sign in first.", { status: 401 });
    }
    const { pathname } = new URL(request.url);
    switch (`${request.method} ${pathname}`) {
      case "POST /orders":
        return place(request, env);
      case "POST /shipments":
        return ship(request, env);
      case "POST /sign-up":
        return signUp(request, env);
      default:
        return new Response("Nothing is here.", { status: 404 });
    }
  },

  /** Notes a refund for what was cancelled since the last run: each once, even if a run fails. */
  async scheduled(_controller, { SHOP, STORE }): Promise<void> {
    await SHOP.exec("CREATE TABLE IF NOT EXISTS refunds (order_id TEXT, cancelled_at TEXT)");
    await SHOP.exec("CREATE TABLE IF NOT EXISTS heard (id INTEGER PRIMARY KEY, next TEXT)");
    const heard = await SHOP.prepare("SELECT next FROM heard").first<string>("next");
    for (let after = BigInt(heard ?? 0); ;) {
      const page = await STORE.cancellations({ after, limit: 100 });
      if (!page.ok) throw new Error(page.message);
      if (page.cancellations.length === 0) return;
      const refund = SHOP.prepare("INSERT INTO refunds VALUES (?, ?)");
      await SHOP.batch([
        ...page.cancellations.map(({ id, cancelledAt }) =>
          refund.bind(String(id), cancelledAt?.toISOString() ?? ""),
        ),
        SHOP.prepare("REPLACE INTO heard VALUES (1, ?)").bind(String(page.next)),
      ]);
      after = page.next;
    }
  },
} satisfies ExportedHandler<Env>;

/** Places `{ "orderId": "9007199254740993", "petId": "7", "quantity": 2 }`: ids are texts. */
async function place(request: Request, env: Env): Promise<Response> {
  const order = await request.json<{ orderId: string; petId: string; quantity: number }>();
  const placed = await env.STORE.place([
    { id: BigInt(order.orderId), petId: BigInt(order.petId), quantity: BigInt(order.quantity) },
  ]);
  return Response.json(placed, { status: placed.ok ? 201 : 409 });
}

/** Ships the orders of `{ "orderIds": ["9007199254740993"] }`. */
async function ship(request: Request, env: Env): Promise<Response> {
  const { orderIds } = await request.json<{ orderIds: string[] }>();
  const shipped = await env.STORE.ship(orderIds.map(BigInt));
  if (!shipped.ok) return Response.json(shipped, { status: 400 });
  const results = shipped.results.map(({ id, result }) => [String(id), result]);
  return Response.json(Object.fromEntries(results));
}

/** Gives the customer of `{ "name": "Pet shop" }` a key on the Free plan. The key is shown once. */
async function signUp(request: Request, env: Env): Promise<Response> {
  const { name } = await request.json<{ name: string }>();
  const created = await env.STORE_KEYS.create({ name, plan: "free" });
  if (!created.ok) return Response.json(created, { status: 400 });
  return Response.json({ id: created.id, key: created.key }, { status: 201 });
}
