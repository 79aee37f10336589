import { randomUUID } from "node:crypto";
import { ApiError } from "./route.ts";

/** An uploaded version of a Worker. */
interface Version {
  readonly id: string;
  readonly message: string;
  readonly uploadedAt: string;
}

interface Deployment {
  readonly id: string;
  readonly versionId: string;
  readonly createdAt: string;
  readonly message: string;
}

const AUTHOR = { source: "wrangler", author_email: "operator@example.com" };

/**
 * The versions of one Worker and its deployments. Each deployment sends all traffic to one version.
 */
export class FakeVersions {
  readonly #versions: Version[] = [];
  readonly #deployments: Deployment[] = [];
  #clockMs = Date.UTC(2026, 10, 21);

  /** Adds a version, without sending traffic to it. */
  upload(message: string, id: string = randomUUID()): string {
    this.#versions.push({ id, message, uploadedAt: this.#now() });
    return id;
  }

  /** Sends all traffic to a version. */
  deploy(versionId: string, message = ""): { id: string } {
    this.describe(versionId);
    const deployment = { id: randomUUID(), versionId, createdAt: this.#now(), message };
    this.#deployments.unshift(deployment);
    return { id: deployment.id };
  }

  /** The version that gets the traffic. */
  get current(): string | undefined {
    return this.#deployments[0]?.versionId;
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
      annotations: { "workers/message": version.message },
    };
  }

  /** All deployments, the newest first. */
  deployments(): object[] {
    return this.#deployments.map(({ id, versionId, createdAt, message }) => ({
      id,
      ...AUTHOR,
      strategy: "percentage",
      created_on: createdAt,
      annotations: { "workers/message": message },
      versions: [{ version_id: versionId, percentage: 100 }],
    }));
  }

  /** Returns a later time with every call, so that sorting by time keeps the order. */
  #now(): string {
    this.#clockMs += 60_000;
    return new Date(this.#clockMs).toISOString();
  }
}
