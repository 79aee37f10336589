import type { Page } from "playwright-core";

/** The position and size of a part of a page, in pixels. */
export interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

/** For each colour, in the form `rgb(1, 2, 3)`: the share of pixels with this colour. */
type Colours = ReadonlyMap<string, number>;

/**
 * Returns the colours in each of the `parts` of a screenshot.
 *
 * @param scratch a page without a Content-Security-Policy, in which the pixels are counted.
 */
export async function coloursOf(
  scratch: Page,
  png: Buffer,
  parts: readonly Box[],
): Promise<Colours[]> {
  const shares = await scratch.evaluate(
    async ([base64, boxes]) => {
      const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
      const picture = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
      const context = new OffscreenCanvas(picture.width, picture.height).getContext("2d", {
        willReadFrequently: true,
      })!;
      context.drawImage(picture, 0, 0);
      return boxes.map(({ x, y, width, height }) => {
        const { data } = context.getImageData(x, y, width, height);
        const counts: Record<string, number> = {};
        for (let index = 0; index < data.length; index += 4) {
          const colour = `rgb(${data[index]}, ${data[index + 1]}, ${data[index + 2]})`;
          counts[colour] = (counts[colour] ?? 0) + 4 / data.length;
        }
        return counts;
      });
    },
    [png.toString("base64"), parts] as const,
  );
  return shares.map((counts) => new Map(Object.entries(counts)));
}

/** Returns how different two colours look: their distance in OKLab, from 0 to about 100. */
export function difference(one: string, other: string): number {
  const [from, to] = [okLab(one), okLab(other)];
  return 100 * Math.hypot(...from.map((value, index) => value - to[index]!));
}

function okLab(colour: string): number[] {
  const [r, g, b] = colour
    .match(/\d+/g)!
    .map((value) => Number(value) / 255)
    .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4)) as [
    number,
    number,
    number,
  ];
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}
