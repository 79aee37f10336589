/** Removes the tags from HTML, and decodes the entities. */
export const textOf = (html: string) =>
  html
    .replace(/<[^>]+>/g, "")
    .replaceAll("&lt;", "<")
    .replaceAll("&gt;", ">")
    .replaceAll("&quot;", '"')
    .replaceAll("&#39;", "'")
    .replaceAll("&#38;", "&")
    .replaceAll("&amp;", "&");
