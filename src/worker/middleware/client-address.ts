import ipaddr from "ipaddr.js";

/** The counted address of the client that sent `request`, as Cloudflare's edge states it. */
export function clientAddress({ headers }: Request): string {
  return countedAddress(headers.get("CF-Connecting-IP") ?? undefined);
}

/**
 * The client address whose failed authentications are counted together: an IPv4 address (also when
 * mapped into IPv6), or the /64 of an IPv6 address. Requests that come without
 * an address share one.
 *
 * @param header the value of `CF-Connecting-IP`, which Cloudflare's edge sets.
 */
export function countedAddress(header: string | undefined): string {
  if (header === undefined || !ipaddr.isValid(header)) return "unknown";
  const address = ipaddr.process(header);
  if (address instanceof ipaddr.IPv4) return address.toString();
  const network = [...address.parts.slice(0, 4), 0, 0, 0, 0];
  return `${new ipaddr.IPv6(network).toString()}/64`;
}
