import { randomUUID } from "node:crypto";
import { type ApiCall, ApiError, bodyOf, type Routes } from "./route.ts";

type Annotations = Readonly<Record<string, string>>;
type Share = { readonly version_id: string; readonly percentage: number };
/** In the shape of Cloudflare's API. */
type Deployment = { readonly versions: readonly Share[]; readonly annotations: Annotations };

type FakeVersion = { readonly bindings: object[]; readonly annotations: Annotations };

/** The versions and deployments of one Worker, the newest first, as the API shows them. */
class FakeWorker {
  readonly list: { id: string; annotations: Annotations; resources: { bindings: object[] } }[] = [];
  readonly deployments: Deployment[] = [];
  /** Whether it has an address on workers.dev. */
  enabled = true;

  upload(bindings: object[], annotations: Annotations): string {
    const resources = { bindings, script: {}, script_runtime: {} };
    const version = { id: randomUUID(), annotations, metadata: { created_on: "" }, resources };
    this.list.unshift(version);
    return version.id;
  }

  deploy(version_id: string, message: string): void {
    const annotations = { "workers/message": message };
    this.deployments.unshift({ versions: [{ version_id, percentage: 100 }], annotations });
  }

  /** The id of the version that gets all traffic; `undefined` if the traffic is divided. */
  get current(): string | undefined {
    return this.deployments[0]?.versions.find(({ percentage }) => percentage === 100)?.version_id;
  }
}

export class FakeWorkers {
  readonly scripts = new Map<string, FakeWorker>();
  readonly crons = new Map<string, unknown>();
  /** The names of Workers by their custom domain. */
  readonly domains = new Map<string, string>();
  /** Chooses the version that answers, instead of the selected or the current one. */
  choose: ((selected: string | undefined) => string) | undefined;

  readonly routes: Routes = {
    "GET /workers/subdomain": { subdomain: "example" },
    "GET /workers/workers/:": { subdomain: { enabled: true, previews_enabled: false } },
    "GET /workers/scripts/:/secrets": [],
    "PATCH /workers/scripts/:/script-settings": {},
    "POST /workers/scripts/:/subdomain": { enabled: true, previews_enabled: false },
    "GET /workers/services/:": (_, name) =>
      this.find(name) && { default_environment: { script: { migration_tag: "v1" } } },
    "GET /workers/domains": () =>
      [...this.domains].map(([hostname, service]) => ({ hostname, service })),
    "GET /workers/scripts/:/settings": (_, name) => this.find(name).list[0]?.resources,
    "PUT /workers/scripts/:": (call, name) => {
      const answer = this.#upload(call, `deploy ${name}`, name);
      this.find(name).deploy(answer.id, "");
      return answer;
    },
    "GET /workers/scripts/:/versions/:": (_, name, id) =>
      this.find(name).list.find((version) => version.id === id),
    "POST /workers/scripts/:/versions": (call, name) => this.#upload(call, `upload ${name}`, name),
    "GET /workers/scripts/:/deployments": (_, name) => this.find(name),
    "POST /workers/scripts/:/deployments": (call, name) => {
      const body = bodyOf<Deployment>(call);
      const shares = body.versions.map((each) => `${each.version_id} ${each.percentage} %`);
      const message = body.annotations["workers/message"];
      call.change(`deploy ${name}: ${shares.join(", ")}: ${message}`);
      this.find(name).deployments.unshift(body);
      return body;
    },
    "GET /workers/scripts/:/subdomain": (_, name) => this.find(name),
    "PUT /workers/scripts/:/schedules": (call, name) => void this.crons.set(name, bodyOf(call)),
    // Requests no uploads (`buckets`), as if Cloudflare had all files already.
    "POST /workers/scripts/:/assets-upload-session": { jwt: "e30.e30.signature", buckets: [] },
  };

  find(name = "", { mayMake = false } = {}): FakeWorker {
    if (mayMake && !this.scripts.has(name)) this.scripts.set(name, new FakeWorker());
    const found = this.scripts.get(name);
    if (found !== undefined) return found;
    throw new ApiError(404, 10007, "This Worker does not exist on your account.");
  }

  /** Answers `/healthz` of a deployed Worker. */
  serve(hostname: string, headers: Headers): Response {
    const worker = this.domains.get(hostname) ?? hostname.split(".")[0] ?? "";
    const { deployments, current = "" } = this.find(worker);
    const overrides = headers.get("Cloudflare-Workers-Version-Overrides");
    const isSelected = ({ version_id: id }: Share) => overrides === `${worker}="${id}"`;
    const selected = deployments[0]?.versions.find(isSelected)?.version_id;
    const version = this.choose?.(selected) ?? selected ?? current;
    const answered = { "X-Version": version, "X-Request-Id": headers.get("X-Request-Id") ?? "" };
    return Response.json({ orders: "ok", keys: "ok", limiter: "ok" }, { headers: answered });
  }

  #upload(call: ApiCall, change: string, name?: string) {
    const { bindings, annotations } = bodyOf<FakeVersion>(call);
    call.change(`${change} with the tag ${annotations["workers/tag"]}`);
    const id = this.find(name, { mayMake: true }).upload(bindings, annotations);
    return { id, deployment_id: id.replaceAll("-", ""), metadata: {}, startup_time_ms: 5 };
  }
}
