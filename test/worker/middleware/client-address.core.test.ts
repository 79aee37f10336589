import { describe, expect, test } from "vitest";
import { clientAddress } from "../../../src/worker/middleware/client-address.ts";

const countedAddress = (header?: string) =>
  clientAddress({ headers: new Headers(header ? { "CF-Connecting-IP": header } : {}) });

describe("the counted address (docs/limits.md, Failed authentication)", () => {
  test.for([
    ["203.0.113.7", "203.0.113.7"],
    ["0.0.0.0", "0.0.0.0"],
    ["255.255.255.255", "255.255.255.255"],
    ["::ffff:203.0.113.7", "203.0.113.7"],
    ["::FFFF:cb00:7107", "203.0.113.7"],
    ["0:0:0:0:0:ffff:203.0.113.7", "203.0.113.7"],
    ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
    ["2001:db8:1:2::", "2001:db8:1:2::/64"],
    ["2001:0DB8:0001:0002:FFFF:FFFF:FFFF:FFFF", "2001:db8:1:2::/64"],
    ["2001:db8::1", "2001:db8::/64"],
    ["::1", "::/64"],
    ["fe80::1%eth0", "fe80::/64"],
  ] as const)("of %s is %s", ([header, expected]) => {
    expect(countedAddress(header)).toBe(expected);
  });

  test("differs between neighbouring networks, but not within a network", () => {
    expect(countedAddress("2001:db8:0:1::1")).not.toBe(countedAddress("2001:db8:0:2::1"));
    expect(countedAddress("2001:db8:0:1::1")).toBe(countedAddress("2001:db8:0:1:ffff::"));
    expect(countedAddress("203.0.113.7")).not.toBe(countedAddress("203.0.113.8"));
  });

  test.for([
    undefined,
    "",
    "localhost",
    "203.0.113.256",
    "203.0.113.7, 198.51.100.1",
    "203.0.113.7:443",
    "[2001:db8::1]",
    "2001:db8::1::2",
    "2001:db8::/64",
    "' OR 1=1 --",
    "a".repeat(10_000),
  ])("of a header that is not an address is always unknown: %s", (header) => {
    expect(countedAddress(header)).toBe("unknown");
  });
});
