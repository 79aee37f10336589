import { randomUUID } from "node:crypto";
import { ApiError } from "./route.ts";

/** An uploaded version of a Worker. */
interface Version {
  readonly id: string;
  readonly message: string;
  readonly tag: string | undefined;
  readonly bindings: readonly object[];
  readonly uploadedAt: string;
}

/** The percentage of the traffic that a version gets. */
export interface Share {
  readonly version_id: string;
  readonly percentage: number;
}

interface Deployment {
  readonly id: string;
  readonly shares: readonly Share[];
  readonly createdAt: string;
  readonly message: string;
}

const AUTHOR = { source: "wrangler", author_email: "operator@example.com" };

/**
 * The versions and deployments of one Worker. A deployment divides the traffic between versions.
 */
export class FakeVersions {
  readonly #versions: Version[] = [];
  readonly #deployments: Deployment[] = [];
  #clockMs = Date.UTC(2026, 10, 21);

  /** Adds a version, without sending traffic to it. */
  upload(
    message: string,
    { tag, bindings = [] }: { tag?: string | undefined; bindings?: readonly object[] } = {},
  ): string {
    const id = randomUUID();
    this.#versions.push({ id, message, tag, bindings, uploadedAt: this.#now() });
    return id;
  }

  /** Sends all traffic to a version. */
  deploy(versionId: string, message = ""): { id: string } {
    return this.divide([{ version_id: versionId, percentage: 100 }], message);
  }

  /** Divides the traffic between versions. */
  divide(shares: readonly Share[], message = ""): { id: string } {
    for (const { version_id } of shares) this.describe(version_id);
    if (shares.reduce((sum, { percentage }) => sum + percentage, 0) !== 100) {
      throw new ApiError(400, 10021, "The percentages must add up to 100.");
    }
    const deployment = { id: randomUUID(), shares, createdAt: this.#now(), message };
    this.#deployments.unshift(deployment);
    return { id: deployment.id };
  }

  /** The id of the version that gets all traffic; `undefined` if the traffic is divided. */
  get current(): string | undefined {
    return this.#deployments[0]?.shares.find(({ percentage }) => percentage === 100)?.version_id;
  }

  /** Returns the id of the version that handles a request which selects the version `asked`. */
  answering(asked: string | undefined): string | undefined {
    const isDeployed = this.#deployments[0]?.shares.some(({ version_id }) => version_id === asked);
    return isDeployed === true ? asked : this.current;
  }

  /** All versions, the newest first. */
  list(): object[] {
    return this.#versions.map(({ id }) => this.describe(id)).toReversed();
  }

  describe(versionId: string): object {
    const index = this.#versions.findIndex(({ id }) => id === versionId);
    const version = this.#versions[index];
    if (version === undefined) throw new ApiError(404, 10007, "This version does not exist.");
    return {
      id: versionId,
      number: index + 1,
      metadata: { ...AUTHOR, created_on: version.uploadedAt, modified_on: version.uploadedAt },
      annotations: { "workers/message": version.message, "workers/tag": version.tag },
      resources: {
        bindings: version.bindings,
        script: { etag: versionId, handlers: ["fetch"] },
        script_runtime: {},
      },
    };
  }

  /** All deployments, the newest first. */
  deployments(): object[] {
    return this.#deployments.map(({ id, shares, createdAt, message }) => ({
      id,
      ...AUTHOR,
      strategy: "percentage",
      created_on: createdAt,
      annotations: { "workers/message": message },
      versions: shares,
    }));
  }

  /** Returns a time that is a minute later with every call, so that all times differ. */
  #now(): string {
    this.#clockMs += 60_000;
    return new Date(this.#clockMs).toISOString();
  }
}
