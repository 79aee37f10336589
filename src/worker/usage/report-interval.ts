/** The longest time from a request to the report that counts it, unless the database fails. */
export const REPORT_EVERY_MS = 3_600_000;
