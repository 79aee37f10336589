import type { PlotOptions } from "@observablehq/plot";

/** The style of all plots. The colours are CSS variables, so they follow the light or dark mode. */
export const PLOT_STYLE = {
  className: "plot",
  style: { fontSize: "13px" },
} as const satisfies PlotOptions;

export const TIP_STYLE = { lineHeight: 1.35, stroke: "var(--line-strong)" } as const;

/** The style of the line at the share of a limit from which a key counts as near the limit. */
export const NEAR_LINE = {
  ariaDescription: "near limit",
  stroke: "var(--near)",
  strokeWidth: 1.5,
  strokeDasharray: "5 3",
} as const;

export const LIMIT_LINE = {
  ariaDescription: "limit",
  stroke: "var(--refused)",
  strokeWidth: 2,
  strokeLinecap: "square",
} as const;

/** The colour of each plan. */
export const PLAN_COLORS = {
  type: "ordinal",
  domain: ["free", "pro", "business", "enterprise"],
  range: ["var(--free)", "var(--pro)", "var(--business)", "var(--enterprise)"],
} as const;

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const whole = new Intl.NumberFormat("en");

/** Formats a count for an axis: `12,345` below a million, and `1.5M` from a million on. */
export function axisCount(count: number): string {
  return count < 1e6 ? whole.format(count) : compact.format(count);
}

/** Formats a count with all digits, such as `12,345`. */
export function exactCount(count: number): string {
  return whole.format(count);
}

/** Formats a share from 0 to 1 as a percentage, such as `80 %`. */
export function percentOf(share: number): string {
  return `${Math.round(share * 100)} %`;
}
