import { randomUUID } from "node:crypto";
import { type ApiCall, ApiError, bodyOf, type Routes } from "./route.ts";

const MADE = { created_on: "2026-11-01T00:00:00Z", author_email: "ada@shop.example" };

type Annotations = Readonly<Partial<Record<`workers/${"tag" | "message"}`, string>>>;

/** A deployment in the shape of Cloudflare's API: the division of traffic between versions. */
interface Deployment {
  readonly id?: string;
  readonly versions: readonly { readonly version_id: string; readonly percentage: number }[];
  readonly annotations?: Annotations;
}

/** A version in the shape of Cloudflare's API. */
interface Version {
  readonly id: string;
  readonly annotations: Annotations;
  readonly metadata: object;
  readonly resources: object;
}

/** The versions and deployments of one Worker, the newest first, as the API shows them. */
export class FakeVersions {
  readonly list: Version[] = [];
  readonly deployments: Deployment[] = [];

  /** Adds a version without traffic, and returns its id. */
  upload(message = "", tag = "", bindings: readonly object[] = []): string {
    const id = randomUUID();
    const annotations = { "workers/message": message, ...(tag !== "" && { "workers/tag": tag }) };
    const resources = { bindings, script: { etag: id }, script_runtime: {} };
    this.list.unshift({ id, annotations, metadata: MADE, resources });
    return id;
  }

  deploy(versionId: string, message = ""): void {
    const annotations = { "workers/message": message };
    this.divide({ versions: [{ version_id: versionId, percentage: 100 }], annotations });
  }

  divide({ versions, annotations = {} }: Deployment): object {
    for (const { version_id } of versions) this.describe(version_id);
    if (versions.reduce((sum, { percentage }) => sum + percentage, 0) !== 100) {
      throw new ApiError(400, 10021, "The percentages must add up to 100.");
    }
    this.deployments.unshift({ id: randomUUID(), ...MADE, versions, annotations });
    return this.deployments[0]!;
  }

  /** The id of the version that gets all traffic; `undefined` if the traffic is divided. */
  get current(): string | undefined {
    return this.deployments[0]?.versions.find(({ percentage }) => percentage === 100)?.version_id;
  }

  describe(versionId = ""): Version {
    const version = this.list.find(({ id }) => id === versionId);
    if (version !== undefined) return version;
    throw new ApiError(404, 10007, "This version does not exist.");
  }
}

interface Script {
  readonly bindings: readonly object[];
  readonly versions: FakeVersions;
}

/** The endpoints of Cloudflare's API for Workers, and the requests that deployed Workers receive. */
export class FakeWorkers {
  readonly scripts = new Map<string, Script>();
  /** The Workers without an address on workers.dev. */
  readonly offWorkersDev = new Set<string>();
  readonly crons = new Map<string, unknown>();
  /** The names of Workers by their custom domain. */
  readonly domains = new Map<string, string>();
  /** The bodies of the last uploads of settings and of the list of static files. */
  uploaded: Record<"metadata" | "assets", any> = { metadata: {}, assets: {} };
  /** If true, ignores version overrides, as Cloudflare does for a short time after an upload. */
  ignoresOverrides = false;
  /** If set, requests without an override reach this version, as on servers that update late. */
  lateVersion: string | undefined;
  /** Returns the status of a request to a deployed Worker. Tests replace this function. */
  answer = (): number => 200;

  readonly routes: Routes = {
    "GET /workers/subdomain": () => ({ subdomain: "example" }),
    "GET /workers/domains": () =>
      [...this.domains].map(([hostname, service]) => ({ id: hostname, hostname, service })),
    "GET /workers/services/:": (_, name) => {
      this.find(name);
      return { default_environment: { script: { tag: "0123", migration_tag: "v1" } } };
    },
    "GET /workers/workers/:": (_, name) => ({ subdomain: this.#subdomain(name) }),
    "GET /workers/scripts/:/secrets": (_, name) => (this.find(name), []),
    "GET /workers/scripts/:/settings": (_, name) => ({ bindings: this.find(name).bindings }),
    "PATCH /workers/scripts/:/script-settings": (call) => bodyOf(call),
    "PUT /workers/scripts/:": (call, name) => {
      call.change(`deploy ${name}`);
      const { id } = this.#upload(call, name);
      this.find(name).versions.deploy(id);
      return { id, deployment_id: id.replaceAll("-", ""), startup_time_ms: 5 };
    },
    "GET /workers/scripts/:/versions/:": (_, name, id) => this.find(name).versions.describe(id),
    "POST /workers/scripts/:/versions": (call, name) => {
      call.change(`upload ${name}`);
      return { ...this.#upload(call, name), startup_time_ms: 5 };
    },
    "GET /workers/scripts/:/deployments": (_, name) => {
      return { deployments: this.find(name).versions.deployments };
    },
    "POST /workers/scripts/:/deployments": (call, name) => {
      const body = bodyOf<Deployment & { code_update_strategy?: { mode: string } }>(call);
      const shares = body.versions.map((each) => `${each.version_id} ${each.percentage} %`);
      const objects = body.code_update_strategy?.mode === "immediate" ? "" : ", objects later";
      call.change(`deploy ${name}: ${shares.join(", ")}${objects}`);
      return this.find(name).versions.divide(body);
    },
    "GET /workers/scripts/:/subdomain": (_, name) => this.#subdomain(name),
    "POST /workers/scripts/:/subdomain": (_, name) => this.#subdomain(name),
    "PUT /workers/scripts/:/schedules": (call, name) => void this.crons.set(name, bodyOf(call)),
    "POST /workers/scripts/:/assets-upload-session": (call) => {
      this.uploaded.assets = bodyOf(call);
      // Requests no uploads (`buckets`), as if Cloudflare had all files already.
      return { jwt: "e30.e30.signature", buckets: [] };
    },
  };

  find(name: string): Script {
    const found = this.scripts.get(name);
    if (found !== undefined) return found;
    throw new ApiError(404, 10007, "This Worker does not exist on your account.");
  }

  /** Answers a request to a deployed Worker, with the id of its version if the request names it. */
  serve(hostname: string, headers: Headers): Response {
    const worker = this.domains.get(hostname) ?? hostname.split(".")[0] ?? "";
    const overrides = headers.get("Cloudflare-Workers-Version-Overrides") ?? "";
    const [, named, asked] = /^([\w-]+)="([\w-]+)"$/.exec(overrides) ?? [];
    const { deployments, current = "" } = this.find(worker).versions;
    const isOverridden = named === worker && !this.ignoresOverrides;
    const deployed = deployments[0]?.versions.find(({ version_id }) => version_id === asked);
    const ordinary = isOverridden ? current : (this.lateVersion ?? current);
    const version = (isOverridden && deployed?.version_id) || ordinary;
    const isAsked = headers.get("X-Version") === version;
    const answered = isAsked ? { "X-Version": version } : {};
    return new Response("", { status: this.answer(), headers: answered });
  }

  #subdomain(name: string): object {
    this.find(name);
    return { enabled: !this.offWorkersDev.has(name), previews_enabled: false };
  }

  #upload(call: ApiCall, name: string): Version {
    const metadata = bodyOf<{ bindings: object[]; annotations?: Annotations }>(call);
    this.uploaded.metadata = metadata;
    const { bindings, annotations = {} } = metadata;
    const versions = this.scripts.get(name)?.versions ?? new FakeVersions();
    this.scripts.set(name, { bindings, versions });
    const { "workers/message": message, "workers/tag": tag } = annotations;
    return versions.describe(versions.upload(message, tag, bindings));
  }
}
