import { expect, test } from "vitest";
import { clientAddress } from "../../../src/worker/middleware/client-address.ts";

const UNKNOWN = [
  ["", "localhost", "203.0.113.256", "203.0.113.7, 198.51.100.1", "203.0.113.7:443"],
  ["[2001:db8::1]", "2001:db8::1::2", "2001:db8::/64", "' OR 1=1 --", "a".repeat(10_000)],
]
  .flat()
  .map((header) => [header, "unknown"] as const);

test.for([
  ["203.0.113.7", "203.0.113.7"],
  ["0.0.0.0", "0.0.0.0"],
  ["255.255.255.255", "255.255.255.255"],
  ["::ffff:203.0.113.7", "203.0.113.7"],
  ["::FFFF:cb00:7107", "203.0.113.7"],
  ["0:0:0:0:0:ffff:203.0.113.7", "203.0.113.7"],
  ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
  ["2001:0DB8:0001:0002:FFFF:FFFF:FFFF:FFFF", "2001:db8:1:2::/64"],
  ["2001:db8::1", "2001:db8::/64"],
  ["2001:db8:0:1::1", "2001:db8:0:1::/64"],
  ["::1", "::/64"],
  ["fe80::1%eth0", "fe80::/64"],
  ...UNKNOWN,
] as const)("failed authentication of the client %s is counted for %s", ([header, expected]) => {
  const headers = new Headers(header === "" ? {} : { "CF-Connecting-IP": header });
  expect(clientAddress({ headers })).toBe(expected);
});
