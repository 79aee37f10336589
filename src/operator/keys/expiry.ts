/**
 * Refuses an expiry that is not in the future (contract, section 6); `null` is never.
 *
 * @throws an Error for the operator.
 */
export function refusePast(expiresAt: Date | null, now: Date): void {
  if (expiresAt !== null && expiresAt <= now) {
    throw new Error(
      `the expiry ${expiresAt.toISOString()} is in the past; \`revoke\` ends a key at once`,
    );
  }
}
