declare namespace Cloudflare {
  interface Env {
    TEST_MIGRATIONS: Record<
      import("../src/schema/databases.ts").DatabaseName,
      import("cloudflare:test").D1Migration[]
    >;
  }
}
