const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const whole = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

const BYTES = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];

/** A number with three digits that count: `4.99M`; `8.5e18` where there is no name for it. */
export function count(value: number): string {
  if (value >= 1e15) return value.toExponential(1).replace("+", "");
  return value < 10_000 ? whole.format(value) : compact.format(value);
}

/** Bytes in powers of a thousand: `230 TB`. */
export function bytes(value: number): string {
  const power = Math.min(BYTES.length - 1, Math.floor(Math.log10(Math.max(1, value)) / 3));
  return `${whole.format(value / 1_000 ** power)} ${BYTES[power]}`;
}

/** Dollars: `$944`, `$1.68K`. */
export function dollars(value: number): string {
  return value < 10 ? `$${value.toFixed(2)}` : `$${count(value)}`;
}

/** A share: `42 %`, `0.35 %`. */
export function percent(share: number): string {
  return `${whole.format(Number((share * 100).toPrecision(2)))} %`;
}

/** How much of a limit is used: in percent, or from ten times on as a multiple. */
export function times(share: number): string {
  return share < 10 ? percent(share) : `${count(share)} ×`;
}

/** A time: `3.4 s`, `12 min`. */
export function seconds(value: number): string {
  const [divisor, unit] = UNITS.find(([length]) => value >= length) ?? [1, "s"];
  return `${whole.format(Number((value / divisor).toPrecision(2)))} ${unit}`;
}

const UNITS: readonly (readonly [length: number, unit: string])[] = [
  [86_400, "days"],
  [3_600, "h"],
  [60, "min"],
];
