declare namespace Cloudflare {
  interface Env {
    TEST_MIGRATIONS: Record<
      import("../src/worker/db/availability.ts").DatabaseName,
      import("cloudflare:test").D1Migration[]
    >;
  }
}
