/**
 * Preloaded into a command under test: sends what it asks of workers.dev to the fake instead. wrangler
 * does not use the global fetch and is not affected.
 */
const fakeOrigin = process.env["FAKE_WORKERS_DEV"] ?? "";
const realFetch = globalThis.fetch;

globalThis.fetch = async (input, init) => {
  const url = new URL(input instanceof Request ? input.url : input);
  if (!url.hostname.endsWith(".workers.dev")) throw new Error(`unexpected request to ${url.href}`);
  return realFetch(`${fakeOrigin}/workers.dev${url.pathname}`, init);
};
