import { FakeVersions } from "./fake-versions.ts";
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
  /** The configuration of its static files. */
  readonly assets?: object | undefined;
}

interface WorkerAnswer {
  readonly status: number;
  readonly body: string;
}

/** The service's answer to an unknown key. */
export const UNAUTHORIZED: WorkerAnswer = {
  status: 401,
  body: '{"code":"unauthorized","message":"Unknown API key","status":401}',
};

const ENABLED = { enabled: true, previews_enabled: false };

/** The endpoints for uploading Workers and putting them on workers.dev. */
export class FakeWorkersApi {
  readonly scripts = new Map<string, Script>();
  /** The requests to deployed Workers. */
  readonly requests: { readonly path: string; readonly authorization: string }[] = [];
  /** The cron triggers of Workers, by name. */
  readonly crons = new Map<string, readonly string[]>();
  /** Answers a request to a deployed Worker. */
  answer: (authorization: string) => WorkerAnswer = () => UNAUTHORIZED;

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
      answer: (_, name) => (this.find(name), { subdomain: ENABLED }),
    },
    {
      method: "PATCH",
      path: /^\/workers\/workers\/([^/]+)$/,
      answer: (_, name) => (this.find(name), { subdomain: ENABLED }),
    },
    { method: "POST", path: script("subdomain"), answer: () => ENABLED },
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
    { method: "POST", path: script("versions"), answer: (call, name) => this.#upload(call, name) },
    {
      method: "POST",
      path: script("deployments"),
      change: deployment,
      answer: ({ body }, name) => this.#deploy(name, JSON.parse(body.toString())),
    },
  ];

  /** The Worker of that name as it was uploaded last. */
  find(name: string): Script {
    const found = this.scripts.get(name);
    if (found === undefined)
      throw new ApiError(404, 10007, "This Worker does not exist on your account.");
    return found;
  }

  #service(name: string): object {
    if (!this.scripts.has(name))
      throw new ApiError(404, 10090, "workers.api.error.service_not_found");
    const deployed = { tag: "tag", tags: [], last_deployed_from: "wrangler" };
    const latest = { ...deployed, migration_tag: this.find(name).migrationTag };
    return { id: name, default_environment: { environment: "production", script: latest } };
  }

  #deploy(
    name: string,
    body: { versions: { version_id: string }[]; annotations?: Record<string, string> },
  ): object {
    const [version] = body.versions;
    const message = body.annotations?.["workers/message"];
    return this.find(name).versions.deploy(version?.version_id ?? "", message);
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
    const versionId = versions.upload(annotations?.["workers/message"] ?? "");
    return {
      id: versionId,
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
