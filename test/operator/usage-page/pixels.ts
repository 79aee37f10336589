import type { Locator, Page } from "playwright-core";

/** The share of pixels of each colour in a picture. Colours are as `rgb(1, 2, 3)`. */
type Colours = ReadonlyMap<string, number>;

/** Counts the colours in a screenshot. Does so in another page, which has no content policy. */
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
