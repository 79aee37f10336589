import type { Locator, Page } from "playwright-core";

/** The share of the pixels of a picture that have each colour, as `rgb(1, 2, 3)`. */
export type Colours = ReadonlyMap<string, number>;

/** Takes a screenshot of a part of a page and counts its colours, in another page without its CSP. */
export async function coloursOf(part: Locator, path: string): Promise<Colours> {
  const png = await part.screenshot({ path });
  const scratch: Page = await part.page().context().newPage();
  try {
    const shares = await scratch.evaluate(async (base64) => {
      const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
      const picture = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
      const canvas = new OffscreenCanvas(picture.width, picture.height);
      const context = canvas.getContext("2d")!;
      context.drawImage(picture, 0, 0);
      const { data } = context.getImageData(0, 0, picture.width, picture.height);
      const counts: Record<string, number> = {};
      for (let index = 0; index < data.length; index += 4) {
        const colour = `rgb(${data[index]}, ${data[index + 1]}, ${data[index + 2]})`;
        counts[colour] = (counts[colour] ?? 0) + 4 / data.length;
      }
      return counts;
    }, png.toString("base64"));
    return new Map(Object.entries(shares));
  } finally {
    await scratch.close();
  }
}
