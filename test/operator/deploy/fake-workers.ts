import { randomUUID } from "node:crypto";
import { type ApiCall, ApiError, bodyOf, type Routes } from "./route.ts";

type Annotations = Readonly<Record<string, string>>;

/** A deployment in the shape of Cloudflare's API: the division of traffic between versions. */
interface Deployment {
  readonly versions: readonly { readonly version_id: string; readonly percentage: number }[];
  readonly annotations: Annotations;
  readonly code_update_strategy?: { readonly mode: string };
}

/** The versions and deployments of one Worker, the newest first, as the API shows them. */
export class FakeVersions {
  readonly list: { readonly id: string; readonly annotations: Annotations }[] = [];
  readonly deployments: Deployment[] = [];

  /** Adds a version without traffic, and returns its id. */
  upload(bindings: readonly object[], annotations: Annotations): string {
    const metadata = { created_on: "2026-11-01T00:00:00Z", author_email: "ada@shop.example" };
    const resources = { bindings, script: {}, script_runtime: {} };
    this.list.unshift(Object.assign({ id: randomUUID(), annotations }, { metadata, resources }));
    return this.list[0]!.id;
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

/** The endpoints of Cloudflare's API for Workers, and the requests that deployed Workers receive. */
export class FakeWorkers {
  readonly scripts = new Map<string, { bindings: readonly object[]; versions: FakeVersions }>();
  readonly crons = new Map<string, unknown>();
  /** The names of Workers by their custom domain. */
  readonly domains = new Map<string, string>();
  /** The bodies of the last uploads of settings and of the list of static files. */
  uploaded: Record<string, any> = {};
  isOnWorkersDev = true;
  /** Chooses the version that answers. Tests replace this function. */
  choose = (selected: string | undefined, current: string): string => selected ?? current;

  readonly routes: Routes = {
    "GET /workers/subdomain": { subdomain: "example" },
    "GET /workers/domains": () =>
      [...this.domains].map(([hostname, service]) => ({ hostname, service })),
    "GET /workers/services/:": (_, name) =>
      this.find(name) && { default_environment: { script: { migration_tag: "v1" } } },
    "GET /workers/workers/:": { subdomain: { enabled: true, previews_enabled: false } },
    "GET /workers/scripts/:/secrets": [],
    "GET /workers/scripts/:/settings": (_, name) => ({ bindings: this.find(name).bindings }),
    "PATCH /workers/scripts/:/script-settings": {},
    "PUT /workers/scripts/:": (call, name) => {
      call.change(`deploy ${name}`);
      const id = this.#upload(call, name);
      this.find(name).versions.deploy(id, "");
      return { id, deployment_id: id.replaceAll("-", ""), startup_time_ms: 5 };
    },
    "GET /workers/scripts/:/versions/:": (_, name, id) =>
      this.find(name).versions.list.find((version) => version.id === id),
    "POST /workers/scripts/:/versions": (call, name) => {
      call.change(`upload ${name}`);
      return { id: this.#upload(call, name), metadata: {}, startup_time_ms: 5 };
    },
    "GET /workers/scripts/:/deployments": (_, name) => {
      return { deployments: this.find(name).versions.deployments };
    },
    "POST /workers/scripts/:/deployments": (call, name) => {
      const body = bodyOf<Deployment>(call);
      const shares = body.versions.map((each) => `${each.version_id} ${each.percentage} %`);
      const objects = body.code_update_strategy?.mode === "immediate" ? "" : ", objects later";
      call.change(`deploy ${name}: ${shares.join(", ")}${objects}`);
      this.find(name).versions.deployments.unshift(body);
      return body;
    },
    "GET /workers/scripts/:/subdomain": () => ({ enabled: this.isOnWorkersDev }),
    "POST /workers/scripts/:/subdomain": { enabled: true, previews_enabled: false },
    "PUT /workers/scripts/:/schedules": (call, name) => void this.crons.set(name, bodyOf(call)),
    // Requests no uploads (`buckets`), as if Cloudflare had all files already.
    "POST /workers/scripts/:/assets-upload-session": (call) => {
      this.uploaded["assets"] = bodyOf(call);
      return { jwt: "e30.e30.signature", buckets: [] };
    },
  };

  find(name = "") {
    const found = this.scripts.get(name);
    if (found !== undefined) return found;
    throw new ApiError(404, 10007, "This Worker does not exist on your account.");
  }

  /** Answers a request to a deployed Worker, with the id of its version if the request names it. */
  serve(hostname: string, headers: Headers): Response {
    const worker = this.domains.get(hostname) ?? hostname.split(".")[0] ?? "";
    const overrides = headers.get("Cloudflare-Workers-Version-Overrides");
    const { deployments, current = "" } = this.find(worker).versions;
    const deployed = deployments[0]?.versions.map(({ version_id }) => version_id);
    const selected = deployed?.find((id) => overrides === `${worker}="${id}"`);
    const version = this.choose(selected, current);
    const answered = { "X-Version": version, "X-Request-Id": headers.get("X-Request-Id") ?? "" };
    return Response.json({ orders: "ok", keys: "ok", limiter: "ok" }, { headers: answered });
  }

  #upload(call: ApiCall, name: string): string {
    const { bindings, annotations } = (this.uploaded["metadata"] = bodyOf(call));
    const versions = this.scripts.get(name)?.versions ?? new FakeVersions();
    this.scripts.set(name, { bindings, versions });
    return versions.upload(bindings, annotations);
  }
}
