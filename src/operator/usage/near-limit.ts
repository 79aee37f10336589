/** A key is near a limit from this share on. */
export const NEAR_LIMIT = 0.8;
