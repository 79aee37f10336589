import type { LocationHint } from "./location-hints.ts";
import { type Limits, type Plan, PLAN_LIMITS } from "../limits/plans.ts";

/** An API key: the columns of `api_keys` that requests need. */
export interface ApiKey {
  readonly id: string;
  /** SHA-256 of the API key's secret in lower-case hexadecimal. */
  readonly hash: string;
  readonly name: string;
  readonly plan: Plan;
  /** Individual rate limits, set only for Enterprise keys. */
  readonly perMinute: number | null;
  readonly perDay: number | null;
  readonly createdAt: Date;
  readonly expiresAt: Date | null;
  readonly revokedAt: Date | null;
  /** Grows with every change of the key, so that a limiter can ignore outdated limits. */
  readonly revision: number;
  /** How often the key was reset. A reset makes the key's limiter forget its windows and ban. */
  readonly resets: number;
  /** Where the key's Durable Object is created; `null`: near the key's first request. */
  readonly locationHint: LocationHint | null;
}

export interface FoundKey extends ApiKey {
  /** When the hash that was looked up stops working; `null` for the key's current hash. */
  readonly hashEndsAt: Date | null;
}

type Milliseconds<T> = T extends Date ? number : T;

/** A row as D1 returns it, with Unix times in milliseconds instead of `Date`s. */
export type Stored<T> = { readonly [Name in keyof T]: Milliseconds<T[Name]> };

/** The columns of an `ApiKey`, for a query in which `own` is the alias of `api_keys`. */
export const KEY_COLUMNS = `own.id, own.hash, own.name, own.plan, own.per_minute AS perMinute, own.per_day AS perDay,
  own.created_at AS createdAt, own.expires_at AS expiresAt, own.revoked_at AS revokedAt,
  own.revision, own.resets, own.location_hint AS locationHint`;

/** Returns a key with its times as `Date`s. Keeps the other fields of the row. */
export function toApiKey<Row extends Stored<ApiKey>>(row: Row) {
  return {
    ...row,
    createdAt: new Date(row.createdAt),
    expiresAt: toDate(row.expiresAt),
    revokedAt: toDate(row.revokedAt),
  };
}

export function toDate(ms: number | null): Date | null {
  return ms === null ? null : new Date(ms);
}

/** Returns the limits of a key's plan, or the individual limits of an Enterprise key. */
export function limitsOf(key: Pick<ApiKey, "plan" | "perMinute" | "perDay">): Limits {
  const { plan, perMinute, perDay } = key;
  if (plan !== "enterprise") return PLAN_LIMITS[plan];
  if (perMinute === null || perDay === null)
    throw new Error("An Enterprise key without limits of its own.");
  return { perMinute, perDay };
}

export const KEY_STATES = ["active", "expired", "revoked"] as const;

/** Returns a key's state at `nowMs` (Unix milliseconds). A revoked key never becomes `expired`. */
export function keyState(
  { expiresAt, revokedAt }: Pick<ApiKey, "expiresAt" | "revokedAt">,
  nowMs: number,
): (typeof KEY_STATES)[number] {
  if (revokedAt !== null && revokedAt.getTime() <= nowMs) return "revoked";
  if (expiresAt !== null && expiresAt.getTime() <= nowMs) return "expired";
  return "active";
}
