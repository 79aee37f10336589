import { FakeVersions, type Share } from "./fake-versions.ts";
import { ApiError } from "./route.ts";
import type { ApiCall, Route } from "./route.ts";

/** The metadata of an uploaded Worker. */
interface Metadata {
  readonly bindings: readonly {
    readonly name: string;
    readonly type: string;
    readonly id?: string;
  }[];
  readonly migrations?: { readonly new_tag: string };
  readonly assets?: { readonly config: object };
  readonly annotations?: Readonly<Record<string, string>>;
}

interface Script {
  readonly bindings: Metadata["bindings"];
  readonly migrationTag: string | undefined;
  readonly versions: FakeVersions;
  /** The configuration of the Worker's static files. */
  readonly assets?: object | undefined;
}

interface WorkerAnswer {
  readonly status: number;
  readonly body: string;
}

/** A request to a deployed Worker. */
interface WorkerRequest {
  readonly hostname: string;
  readonly path: string;
  readonly authorization: string;
  /** The id of the version that handles the request. */
  readonly version: string | undefined;
}

/** The service's response to a request with an unknown key. */
export const UNAUTHORIZED: WorkerAnswer = {
  status: 401,
  body: '{"code":"unauthorized","message":"Unknown API key","status":401}',
};

/** The account's only zone. */
const ZONE = "shop.example";

/** The service's response to /healthz while every part works. */
export const HEALTHY: WorkerAnswer = {
  status: 200,
  body: '{"orders":"ok","keys":"ok","limiter":"ok"}',
};

/** A fake of the API endpoints for Workers, their versions, and their domains. */
export class FakeWorkersApi {
  readonly scripts = new Map<string, Script>();
  /** Names of the Workers whose address on workers.dev is turned off. */
  readonly offWorkersDev = new Set<string>();
  /** The cron expressions of each Worker, by the Worker's name. */
  readonly crons = new Map<string, readonly string[]>();
  /** The requests to deployed Workers. */
  readonly requests: WorkerRequest[] = [];
  /** The names of Workers by their custom domain. */
  readonly domains = new Map<string, string>();
  /** The DNS records of the account's only zone. */
  readonly records: { readonly name: string; readonly type: string; readonly content: string }[] =
    [];
  /** If true, the API ignores version overrides, as Cloudflare does for a short time after an upload. */
  ignoresOverrides = false;
  /**
   * If set, this version handles all requests without a version override, as an old version does on
   * some of Cloudflare's servers shortly after a deployment.
   */
  lateVersion: string | undefined;
  /** Returns the response of a deployed Worker. Tests replace this function. */
  answer: (authorization: string, request: WorkerRequest) => WorkerAnswer = (_, { path }) =>
    path === "/healthz" ? HEALTHY : UNAUTHORIZED;

  readonly routes: readonly Route[] = [
    { method: "GET", path: /^\/workers\/subdomain$/, answer: () => ({ subdomain: "example" }) },
    {
      method: "GET",
      path: /^\/workers\/services\/([^/]+)$/,
      answer: (_, name) => this.#service(name),
    },
    { method: "GET", path: script("secrets"), answer: (_, name) => (this.find(name), []) },
    {
      method: "GET",
      path: script("settings"),
      answer: (_, name) => ({ bindings: this.find(name).bindings }),
    },
    {
      method: "GET",
      path: script("deployments"),
      answer: (_, name) => ({ deployments: this.find(name).versions.deployments() }),
    },
    {
      method: "GET",
      path: script("versions"),
      answer: (_, name) => ({ items: this.find(name).versions.list() }),
    },
    {
      method: "GET",
      path: script("versions/[^/]+"),
      answer: ({ path }, name) => this.find(name).versions.describe(path.split("/").at(-1) ?? ""),
    },
    {
      method: "GET",
      path: /^\/workers\/workers\/([^/]+)$/,
      answer: (_, name) => ({ subdomain: this.#subdomain(name) }),
    },
    {
      method: "PATCH",
      path: /^\/workers\/workers\/([^/]+)$/,
      answer: (_, name) => ({ subdomain: this.#subdomain(name) }),
    },
    {
      method: "POST",
      path: script("subdomain"),
      answer: ({ body }, name) => {
        const { enabled } = JSON.parse(body.toString()) as { readonly enabled: boolean };
        if (enabled) this.offWorkersDev.delete(name);
        else this.offWorkersDev.add(name);
        return this.#subdomain(name);
      },
    },
    {
      method: "PUT",
      path: script("schedules"),
      answer: ({ body }, name) => {
        const schedules = JSON.parse(body.toString()) as { readonly cron: string }[];
        this.crons.set(
          name,
          schedules.map(({ cron }) => cron),
        );
        return { schedules };
      },
    },
    {
      method: "GET",
      path: script("schedules"),
      answer: (_, name) => ({ schedules: this.crons.get(name)?.map((cron) => ({ cron })) ?? [] }),
    },
    { method: "GET", path: script("subdomain"), answer: (_, name) => this.#subdomain(name) },
    {
      method: "GET",
      path: /^\/workers\/domains$/,
      answer: () => [...this.domains].map(([hostname, service]) => ({ hostname, service })),
    },
    {
      method: "PUT",
      path: /^\/workers\/domains$/,
      change: ({ body }) => `attach ${JSON.parse(body.toString()).hostname}`,
      answer: ({ body }) => this.#attach(JSON.parse(body.toString())),
    },
    {
      method: "GET",
      path: /^\/zones$/,
      answer: ({ query }) => (query.get("name") === ZONE ? [{ id: "zone-1", name: ZONE }] : []),
    },
    {
      method: "GET",
      path: /^\/zones\/zone-1\/dns_records$/,
      answer: ({ query }) => this.records.filter(({ name }) => name === query.get("name")),
    },
    { method: "PATCH", path: script("script-settings"), answer: () => ({}) },
    {
      method: "PUT",
      path: /^\/workers\/scripts\/([^/]+)$/,
      change: deployment,
      answer: async (call, name) => {
        const uploaded = await this.#upload(call, name);
        this.find(name).versions.deploy(uploaded.id);
        return uploaded;
      },
    },
    {
      method: "POST",
      path: script("versions"),
      change: (_, name) => `upload ${name}`,
      answer: (call, name) => this.#upload(call, name),
    },
    {
      method: "POST",
      path: script("deployments"),
      change: ({ body }, name) => `deploy ${name}: ${sharesOf(body)}`,
      answer: ({ body }, name) => this.#deploy(name, JSON.parse(body.toString())),
    },
  ];

  /** Returns the last upload of the Worker with this name. */
  find(name: string): Script {
    const found = this.scripts.get(name);
    if (found === undefined)
      throw new ApiError(404, 10007, "This Worker does not exist on your account.");
    return found;
  }

  #subdomain(name: string): object {
    this.find(name);
    return { enabled: !this.offWorkersDev.has(name), previews_enabled: false };
  }

  #service(name: string): object {
    if (!this.scripts.has(name))
      throw new ApiError(404, 10090, "workers.api.error.service_not_found");
    const deployed = { tag: "tag", tags: [], last_deployed_from: "wrangler" };
    const latest = { ...deployed, migration_tag: this.find(name).migrationTag };
    return { id: name, default_environment: { environment: "production", script: latest } };
  }

  /**
   * Records a request to a deployed Worker and returns the response.
   *
   * @param overrides the value of the header `Cloudflare-Workers-Version-Overrides`.
   */
  serve(
    hostname: string,
    url: URL,
    { authorization = "", overrides = "" }: { authorization?: string; overrides?: string },
  ): WorkerAnswer & { readonly version: string | undefined } {
    const worker = this.domains.get(hostname) ?? hostname.split(".")[0] ?? "";
    const [, named, asked] = /^([\w-]+)="([\w-]+)"$/.exec(overrides) ?? [];
    const { versions } = this.scripts.get(worker) ?? {};
    if (versions === undefined) return { status: 404, body: "", version: undefined };
    const isNamed = named === worker && !this.ignoresOverrides;
    const version = isNamed
      ? versions.answering(asked)
      : (this.lateVersion ?? versions.answering(undefined));
    const request = { hostname, path: url.pathname, authorization, version };
    this.requests.push(request);
    return { ...this.answer(authorization, request), version };
  }

  #attach({ hostname, service }: { hostname: string; service: string }): object {
    this.find(service);
    if (this.records.some(({ name }) => name === hostname)) {
      const message = `Hostname '${hostname}' already has externally managed DNS records`;
      throw new ApiError(409, 100117, message);
    }
    this.domains.set(hostname, service);
    return { hostname, service };
  }

  #deploy(name: string, body: { versions: Share[]; annotations?: Record<string, string> }): object {
    const message = body.annotations?.["workers/message"];
    return this.find(name).versions.divide(body.versions, message);
  }

  async #upload(
    { body, contentType }: ApiCall,
    name: string,
  ): Promise<{ readonly id: string; readonly [field: string]: unknown }> {
    const form = await new Response(new Uint8Array(body), {
      headers: { "Content-Type": contentType },
    }).formData();
    const metadata = JSON.parse(form.get("metadata") as string) as Metadata;
    const before = this.scripts.get(name);
    const versions = before?.versions ?? new FakeVersions();
    const migrationTag = metadata.migrations?.new_tag ?? before?.migrationTag;
    const { bindings, assets, annotations } = metadata;
    this.scripts.set(name, { bindings, migrationTag, versions, assets: assets?.config });
    const tag = annotations?.["workers/tag"];
    const versionId = versions.upload(annotations?.["workers/message"] ?? "", { tag, bindings });
    return {
      id: versionId,
      metadata: { has_preview: false },
      deployment_id: versionId,
      startup_time_ms: 5,
      resources: { script: { etag: versionId } },
    };
  }
}

function script(part: string): RegExp {
  return new RegExp(`^/workers/scripts/([^/]+)/${part}$`);
}

function deployment(_: ApiCall, name: string): string {
  return `deploy ${name}`;
}

function sharesOf(body: Buffer): string {
  const { versions, code_update_strategy: strategy } = JSON.parse(body.toString()) as {
    versions: readonly Share[];
    code_update_strategy?: { readonly mode: string };
  };
  const shares = versions.map(({ version_id, percentage }) => `${version_id} ${percentage} %`);
  return shares.join(", ") + (strategy?.mode === "immediate" ? "" : ", objects later");
}
