/** The environments in `wrangler.toml`. Each has its own Worker and databases. */
export const REMOTE_ENVIRONMENTS = ["staging", "production"] as const;

export type RemoteEnvironment = (typeof REMOTE_ENVIRONMENTS)[number];
