import { randomUUID } from "node:crypto";
import { type ApiCall, ApiError, bodyOf, type Routes } from "./route.ts";

interface Share {
  readonly version_id: string;
  readonly percentage: number;
}

type Annotations = Readonly<Record<`workers/${"tag" | "message"}`, string | undefined>>;

interface Deployment {
  readonly versions: readonly Share[];
  readonly annotations: Partial<Annotations>;
}

/** The versions and deployments of one Worker, the newest first, as the API shows them. */
export class FakeVersions {
  readonly list: { readonly id: string; readonly [part: string]: unknown }[] = [];
  readonly deployments: Deployment[] = [];

  /** Adds a version without traffic, and returns its id. */
  upload(message = "", tag?: string, bindings: readonly object[] = []): string {
    const id = randomUUID();
    const annotations = { "workers/message": message, "workers/tag": tag };
    this.list.unshift({ id, annotations, metadata: {}, resources: { bindings } });
    return id;
  }

  deploy(versionId: string, message?: string): void {
    this.divide([{ version_id: versionId, percentage: 100 }], message);
  }

  divide(versions: readonly Share[], message = ""): void {
    for (const { version_id } of versions) this.describe(version_id);
    if (versions.reduce((sum, { percentage }) => sum + percentage, 0) !== 100) {
      throw new ApiError(400, 10021, "The percentages must add up to 100.");
    }
    this.deployments.unshift({ versions, annotations: { "workers/message": message } });
  }

  /** The id of the version that gets all traffic; `undefined` if the traffic is divided. */
  get current(): string | undefined {
    return this.deployments[0]?.versions.find(({ percentage }) => percentage === 100)?.version_id;
  }

  isDeployed(id: string | undefined): boolean {
    return this.deployments[0]?.versions.some(({ version_id }) => version_id === id) === true;
  }

  describe(versionId: string): object {
    const version = this.list.find(({ id }) => id === versionId);
    if (version !== undefined) return version;
    throw new ApiError(404, 10007, "This version does not exist.");
  }
}

interface Metadata {
  readonly bindings: readonly object[];
  readonly migrations?: { readonly new_tag: string };
  readonly assets?: { readonly config: object };
  readonly annotations?: Annotations;
}

interface Script {
  readonly bindings: readonly object[];
  readonly migrationTag: string | undefined;
  readonly versions: FakeVersions;
  /** The configuration of static files. */
  readonly assets?: object | undefined;
}

interface WorkerAnswer {
  readonly status: number;
  readonly body: string;
}

/** The account's only zone. */
const ZONE = "shop.example";

/** The response of /healthz. */
export const HEALTHY: WorkerAnswer = { status: 200, body: '{"orders":"ok"}' };

/** A fake of the API endpoints for Workers: versions, static files, triggers, domains, requests. */
export class FakeWorkers {
  readonly scripts = new Map<string, Script>();
  /** The Workers without an address on workers.dev. */
  readonly offWorkersDev = new Set<string>();
  readonly crons = new Map<string, readonly string[]>();
  /** The requests for deployed Workers, with the ids of the versions that handle them. */
  readonly requests: { readonly hostname: string; readonly version: string | undefined }[] = [];
  /** The names of Workers by their custom domain. */
  readonly domains = new Map<string, string>();
  /** The DNS records of the account's only zone. */
  readonly records: Readonly<Record<"name" | "type" | "content", string>>[] = [];
  /** The static files of the last upload, by path. */
  files: Readonly<Record<string, { readonly size: number }>> = {};
  /** If true, ignores version overrides, as Cloudflare does for a short time after an upload. */
  ignoresOverrides = false;
  /** If set, requests without an override reach this version, as on servers that update late. */
  lateVersion: string | undefined;
  /** Returns the response of a deployed Worker. Tests replace this function. */
  answer = (path: string): WorkerAnswer =>
    path === "/healthz" ? HEALTHY : { status: 404, body: "" };

  readonly routes: Routes = {
    "GET /workers/subdomain": () => ({ subdomain: "example" }),
    "GET /workers/services/:": (_, name) => ({
      default_environment: { script: { migration_tag: this.find(name).migrationTag } },
    }),
    "GET /workers/workers/:": (_, name) => ({ subdomain: this.#subdomain(name) }),
    "PUT /workers/scripts/:": async (call, name) => {
      call.change(`deploy ${name}`);
      const uploaded = await this.#upload(call, name);
      this.find(name).versions.deploy(uploaded.id);
      return uploaded;
    },
    "GET /workers/scripts/:/secrets": (_, name) => (this.find(name), []),
    "GET /workers/scripts/:/settings": (_, name) => ({ bindings: this.find(name).bindings }),
    "PATCH /workers/scripts/:/script-settings": ({ change }, name) => {
      change(`change the settings of ${name}`);
    },
    "GET /workers/scripts/:/versions": (_, name) => ({ items: this.find(name).versions.list }),
    "GET /workers/scripts/:/versions/:": (_, name, id) => this.find(name).versions.describe(id),
    "POST /workers/scripts/:/versions": (call, name) => {
      call.change(`upload ${name}`);
      return this.#upload(call, name);
    },
    "GET /workers/scripts/:/deployments": (_, name) => ({
      deployments: this.find(name).versions.deployments,
    }),
    "POST /workers/scripts/:/deployments": (call, name) => this.#deploy(call, name),
    "GET /workers/scripts/:/subdomain": (_, name) => this.#subdomain(name),
    "POST /workers/scripts/:/subdomain": (_, name) => {
      this.offWorkersDev.delete(name);
      return this.#subdomain(name);
    },
    "GET /workers/scripts/:/schedules": (_, name) => ({
      schedules: this.crons.get(name)?.map((cron) => ({ cron })) ?? [],
    }),
    "PUT /workers/scripts/:/schedules": (call, name) => {
      const crons = bodyOf<{ cron: string }[]>(call).map(({ cron }) => cron);
      this.crons.set(name, crons);
    },
    "POST /workers/scripts/:/assets-upload-session": (call) => {
      this.files = bodyOf<{ manifest: Record<string, { size: number }> }>(call).manifest;
      // Requests no uploads (`buckets`), as if Cloudflare had all files already.
      return { jwt: "e30.e30.signature", buckets: [] };
    },
    "GET /workers/domains": () =>
      [...this.domains].map(([hostname, service]) => ({ hostname, service })),
    "GET /zones": ({ query }) => (query.get("name") === ZONE ? [{ id: "zone-1", name: ZONE }] : []),
    "GET /zones/zone-1/dns_records": ({ query }) =>
      this.records.filter(({ name }) => name === query.get("name")),
  };

  find(name: string): Script {
    const found = this.scripts.get(name);
    if (found !== undefined) return found;
    throw new ApiError(404, 10007, "This Worker does not exist on your account.");
  }

  serve(hostname: string, path: string, headers: Headers): WorkerAnswer & { version?: string } {
    const worker = this.domains.get(hostname) ?? hostname.split(".")[0] ?? "";
    const overrides = headers.get("Cloudflare-Workers-Version-Overrides") ?? "";
    const [, named, asked] = /^([\w-]+)="([\w-]+)"$/.exec(overrides) ?? [];
    const { versions } = this.scripts.get(worker) ?? {};
    if (versions === undefined) return { status: 404, body: "" };
    const isNamed = named === worker && !this.ignoresOverrides;
    const ordinary = isNamed ? versions.current : (this.lateVersion ?? versions.current);
    const version = isNamed && versions.isDeployed(asked) ? asked : ordinary;
    this.requests.push({ hostname, version });
    return { ...this.answer(path), ...(version !== undefined && { version }) };
  }

  #subdomain(name: string): object {
    this.find(name);
    return { enabled: !this.offWorkersDev.has(name) };
  }

  #deploy(call: ApiCall, name: string): void {
    const body = bodyOf<Deployment & { code_update_strategy?: { readonly mode: string } }>(call);
    const { versions, annotations, code_update_strategy: strategy } = body;
    const shares = versions.map(({ version_id, percentage }) => `${version_id} ${percentage} %`);
    const objects = strategy?.mode === "immediate" ? "" : ", objects later";
    call.change(`deploy ${name}: ${shares.join(", ")}${objects}`);
    this.find(name).versions.divide(versions, annotations["workers/message"]);
  }

  async #upload(call: ApiCall, name: string): Promise<{ readonly id: string }> {
    const form = await call.form();
    const { bindings, migrations, assets, annotations }: Metadata = JSON.parse(
      form.get("metadata") as string,
    );
    const { versions = new FakeVersions(), migrationTag: tagBefore } = this.scripts.get(name) ?? {};
    const migrationTag = migrations?.new_tag ?? tagBefore;
    this.scripts.set(name, { bindings, migrationTag, versions, assets: assets?.config });
    const { "workers/message": message, "workers/tag": tag } = annotations ?? {};
    const id = versions.upload(message, tag, bindings);
    return Object.assign({ id, metadata: {} }, { startup_time_ms: 5, resources: { script: {} } });
  }
}
