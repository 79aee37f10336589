import type { ApiCall, Route } from "./route.ts";

/** The list of files that wrangler sends: the hash of each file by path. */
type Manifest = Readonly<Record<string, { readonly hash: string }>>;

/** A fake of the API endpoints with which wrangler uploads the static files of a Worker. */
export class FakeAssetsApi {
  /** The token that authorizes only the upload of static files. */
  readonly jwt = ["{}", "{}", "signature"]
    .map((part) => Buffer.from(part).toString("base64url"))
    .join(".");
  /** The static files that have been uploaded, by path. */
  readonly files = new Map<string, string>();
  #manifest: Manifest = {};

  readonly routes: readonly Route[] = [
    {
      method: "POST",
      path: /^\/workers\/scripts\/([^/]+)\/assets-upload-session$/,
      answer: (call) => this.#begin(call),
    },
    { method: "POST", path: /^\/workers\/assets\/upload$/, answer: (call) => this.#upload(call) },
  ];

  #begin({ body }: ApiCall): object {
    this.#manifest = (JSON.parse(body.toString()) as { manifest: Manifest }).manifest;
    return { jwt: this.jwt, buckets: [Object.values(this.#manifest).map(({ hash }) => hash)] };
  }

  async #upload({ body, contentType }: ApiCall): Promise<object> {
    const headers = { "Content-Type": contentType };
    const form = await new Response(new Uint8Array(body), { headers }).formData();
    for (const [path, { hash }] of Object.entries(this.#manifest)) {
      const part = form.get(hash);
      if (part === null) continue;
      const base64 = typeof part === "string" ? part : await part.text();
      this.files.set(path, Buffer.from(base64, "base64").toString());
    }
    return { jwt: this.jwt };
  }
}
