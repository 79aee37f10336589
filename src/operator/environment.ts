/** The deployed environments of `wrangler.toml`. Each has a database of its own. */
export const REMOTE_ENVIRONMENTS = ["staging", "production"] as const;

export type RemoteEnvironment = (typeof REMOTE_ENVIRONMENTS)[number];
