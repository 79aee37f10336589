/**
 * Reads the public address of a deployment (docs/operating.md, Deploying).
 *
 * @param url the address; by default the environment variable `PUBLIC_URL`.
 * @returns the address, which has no slash at the end; empty text if `PUBLIC_URL` is not set.
 * @throws {Error} if the address is more than a scheme and a host. The message shows an example.
 */
export function publicOrigin(url = process.env["PUBLIC_URL"] ?? ""): string {
  if (url === "") return "";
  const parsed = URL.parse(url);
  const isOrigin = parsed !== null && /^https?:$/.test(parsed.protocol) && url === parsed.origin;
  if (isOrigin) return url;
  throw new Error(
    `PUBLIC_URL is ${JSON.stringify(url)}. Give scheme and host only, such as https://orders.example.`,
  );
}
