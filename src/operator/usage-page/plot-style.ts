import type { PlotOptions } from "@observablehq/plot";

/** The style of all plots. The colours are CSS variables, so they follow the light or dark mode. */
export const PLOT_STYLE = {
  className: "plot",
  style: { fontSize: "13px" },
} as const satisfies PlotOptions;

export const TIP_STYLE = { lineHeight: 1.35, stroke: "var(--line-strong)" } as const;

/** The colour of each plan. */
export const PLAN_COLORS = {
  domain: ["free", "pro", "business", "enterprise"],
  range: ["var(--free)", "var(--pro)", "var(--business)", "var(--enterprise)"],
} as const;

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const whole = new Intl.NumberFormat("en");

/** Formats a count for an axis: `12K`. */
export function compactCount(count: number): string {
  return compact.format(count);
}

/** Formats a count exactly: `12,345`. */
export function exactCount(count: number): string {
  return whole.format(count);
}
