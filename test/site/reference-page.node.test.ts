import { describe } from "vitest";
import { testAccessibility } from "./accessibility.ts";
import { testConsole } from "./console.ts";
import { testLimits } from "./limits.ts";
import { describePage } from "./reference-page.ts";
import { testSamples } from "./samples.ts";

// All groups of tests share one service and one browser. Each group uses different keys and orders.
describePage("the reference page", (reference) => {
  describe("as a page to read", () => testSamples(reference));
  describe("as a console", () => testConsole(reference));
  describe("for everyone", () => testAccessibility(reference));
  describe("at a limit", () => testLimits(reference));
});
