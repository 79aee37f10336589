/** The environments of `wrangler.toml` that are deployed, each with a database of its own. */
export const REMOTE_ENVIRONMENTS = ["staging", "production"] as const;

export type RemoteEnvironment = (typeof REMOTE_ENVIRONMENTS)[number];
