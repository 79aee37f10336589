/**
 * Reads the public address of a deployment (docs/operating.md, Deploying).
 *
 * @param url the variable `PUBLIC_URL` of this process.
 * @returns the address without a slash at its end; empty text if the variable is not set.
 * @throws {Error} that says how an address looks.
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
