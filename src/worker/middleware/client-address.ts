import ipaddr from "ipaddr.js";

/** Returns the address that a failed authentication of this request counts against. */
export function clientAddress({ headers }: Request): string {
  return countedAddress(headers.get("CF-Connecting-IP") ?? undefined);
}

/**
 * Reduces an address to the one that has a budget (docs/limits.md, Failed authentication): IPv4,
 * also when mapped into IPv6, or the /64 of an IPv6 address. Requests without an address share one.
 *
 * @param header the value of `CF-Connecting-IP`, which Cloudflare sets.
 */
export function countedAddress(header: string | undefined): string {
  if (header === undefined || !ipaddr.isValid(header)) return "unknown";
  const address = ipaddr.process(header);
  if (address instanceof ipaddr.IPv4) return address.toString();
  const network = [...address.parts.slice(0, 4), 0, 0, 0, 0];
  return `${new ipaddr.IPv6(network).toString()}/64`;
}
