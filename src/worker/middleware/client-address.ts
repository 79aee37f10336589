import ipaddr from "ipaddr.js";

/**
 * Returns the address or network for which a failed authentication of this request is counted
 * (docs/limits.md, Failed authentication): an IPv4 address, also if it is mapped into IPv6, or the
 * /64 network of an IPv6 address. All requests without a valid address are counted together.
 */
export function clientAddress({ headers }: Pick<Request, "headers">): string {
  const header = headers.get("CF-Connecting-IP") ?? "";
  if (!ipaddr.isValid(header)) return "unknown";
  const address = ipaddr.process(header);
  if (address instanceof ipaddr.IPv4) return address.toString();
  const network = [...address.parts.slice(0, 4), 0, 0, 0, 0];
  return `${new ipaddr.IPv6(network).toString()}/64`;
}
