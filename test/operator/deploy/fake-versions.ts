import { randomUUID } from "node:crypto";
import { ApiError } from "./route.ts";

/** The percentage of the traffic that a version gets. */
export interface Share {
  readonly version_id: string;
  readonly percentage: number;
}

const AUTHOR = { source: "wrangler", author_email: "operator@example.com" };

/**
 * The versions and deployments of one Worker, as the API shows them. A deployment divides the
 * traffic between versions.
 */
export class FakeVersions {
  readonly #versions: { readonly id: string }[] = [];
  readonly #deployments: { readonly versions: readonly Share[] }[] = [];
  #clockMs = Date.UTC(2026, 10, 21);

  /** Adds a version, without sending traffic to it, and returns its id. */
  upload(
    message: string,
    { tag, bindings = [] }: { tag?: string | undefined; bindings?: readonly object[] } = {},
  ): string {
    const id = randomUUID();
    const at = this.#now();
    const script = { etag: id, handlers: ["fetch"] };
    this.#versions.push(
      Object.assign(
        { id, number: this.#versions.length + 1 },
        { metadata: { ...AUTHOR, created_on: at, modified_on: at } },
        { annotations: { "workers/message": message, "workers/tag": tag } },
        { resources: { bindings, script, script_runtime: {} } },
      ),
    );
    return id;
  }

  /** Sends all traffic to a version. */
  deploy(versionId: string, message = ""): { id: string } {
    return this.divide([{ version_id: versionId, percentage: 100 }], message);
  }

  /** Divides the traffic between versions. */
  divide(versions: readonly Share[], message = ""): { id: string } {
    for (const { version_id } of versions) this.describe(version_id);
    if (versions.reduce((sum, { percentage }) => sum + percentage, 0) !== 100) {
      throw new ApiError(400, 10021, "The percentages must add up to 100.");
    }
    const annotations = { "workers/message": message };
    const common = { id: randomUUID(), ...AUTHOR, strategy: "percentage", versions };
    this.#deployments.unshift(Object.assign(common, { created_on: this.#now(), annotations }));
    return { id: common.id };
  }

  /** The id of the version that gets all traffic; `undefined` if the traffic is divided. */
  get current(): string | undefined {
    const [last] = this.#deployments;
    return last?.versions.find(({ percentage }) => percentage === 100)?.version_id;
  }

  /** Returns the id of the version that handles a request which selects the version `asked`. */
  answering(asked: string | undefined): string | undefined {
    const [last] = this.#deployments;
    const isDeployed = last?.versions.some(({ version_id }) => version_id === asked);
    return isDeployed === true ? asked : this.current;
  }

  /** All versions, the newest first. */
  list(): object[] {
    return this.#versions.toReversed();
  }

  describe(versionId: string): object {
    const version = this.#versions.find(({ id }) => id === versionId);
    if (version !== undefined) return version;
    throw new ApiError(404, 10007, "This version does not exist.");
  }

  /** All deployments, the newest first. */
  deployments(): object[] {
    return this.#deployments;
  }

  /** Returns a time that is a minute later with every call, so that all times differ. */
  #now(): string {
    this.#clockMs += 60_000;
    return new Date(this.#clockMs).toISOString();
  }
}
