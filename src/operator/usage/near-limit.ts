/** The share of a limit from which a key counts as near the limit. */
export const NEAR_LIMIT = 0.8;
