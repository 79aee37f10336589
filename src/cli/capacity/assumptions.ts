import * as z from "zod";
import { PLANS } from "../../db/schema.ts";
import type { BanPolicy } from "../../rate-limit/bans.ts";

const share = z.number().min(0).max(1);
const positive = z.number().positive();
const whole = z.int().positive();
/** Half of the values are below the median; `sigma` is the standard deviation of their logarithm. */
const logNormal = z.strictObject({ median: positive, sigma: z.number().nonnegative() });

const banSchema = z.strictObject({
  graceMs: z.number().nonnegative(),
  strikeWindowMs: positive,
  minStrikes: whole,
  maxStrikes: whole,
  firstBanMs: positive,
  longestBanMs: positive,
  forgetAfterMs: positive,
}) satisfies z.ZodType<BanPolicy>;

/** How the keys of one plan are used. */
const planSchema = z.strictObject({
  /** Of all keys, how many have this plan. */
  share,
  /** Of these, how many send anything on a day. */
  activeShare: share,
  /** Requests that an active key's client wants to send on a day. */
  requestsPerDay: logNormal,
  /** Keys of the plan that are simulated. */
  sample: whole.min(2),
  limits: z.strictObject({ perMinute: whole, perDay: whole }),
});

export const assumptionsSchema = z.strictObject({
  seed: z.int(),
  plans: z.strictObject(
    Object.fromEntries(PLANS.map((plan) => [plan, planSchema])) as Record<
      (typeof PLANS)[number],
      typeof planSchema
    >,
  ),
  /** Clients work in sessions of so many requests, one after the other; each has a pace of its own. */
  session: z.strictObject({ requests: logNormal, pauseMs: logNormal }),
  /** Sessions begin `1 + amplitude` times as often at the peak as on average (UTC). */
  dailyCycle: z.strictObject({ amplitude: share, peakHour: z.number().min(0).max(24) }),
  /** What clients do when they are refused. */
  refused: z.strictObject({
    /** Obey `Retry-After`, unless it is longer than `patienceMs`. */
    waits: share,
    /** Double their wait from half a second to a minute, ten times at most. */
    backsOff: share,
    /** Repeat `hammer.perSecond` times a second, for `hammer.seconds` at most. */
    hammers: share,
  }),
  patienceMs: positive,
  /** Of the active keys, those whose client runs wild once on the day, and how many are simulated. */
  runaways: z.strictObject({ share, sample: whole.min(2) }),
  hammer: z.strictObject({ perSecond: positive, seconds: positive }),
  /** Of the requests, how many cancel an order; all others list them. */
  cancelShare: share,
  /** Of the clients, how many send `If-None-Match`. */
  conditionalShare: share,
  /** Requests without a valid key, for each one with it. */
  unauthorizedShare: z.number().nonnegative(),
  /** Of the orders stored, how many are placed or shipped on a day. */
  orderChangesPerDay: z.number().nonnegative(),
  network: z.strictObject({
    /** Data centres of Cloudflare's whose callers use the service. */
    dataCentres: whole,
    /** Isolates in each among which the requests of a key are spread. */
    isolates: whole,
    /** From a Worker to D1 and back, without the query itself. */
    databaseRoundTripMs: z.number().nonnegative(),
    /** What a client can take in, in megabits a second. */
    clientMbits: positive,
  }),
  cost: z.strictObject({
    /** Processor time of the Worker for a request, without the orders in its answer. */
    requestCpuMs: positive,
    /** Time for which an object is at work on a call: until what it stored is safe. */
    objectCallMs: positive,
    /** D1's time for one query: of a row or two, and one that writes. */
    databaseReadMs: positive,
    databaseWriteMs: positive,
    /** A line of the log, with what Cloudflare adds to it. */
    logBytes: positive,
    /** Bytes of an answer without a list, with its headers. */
    answerBytes: positive,
  }),
  /** For how long reports of usage are kept. Nothing removes them by itself. */
  usageDaysKept: positive,
  /** The service's own configuration, as README has it. */
  configuration: z.strictObject({ bans: banSchema, apiKeyFreshMs: positive }),
});

/**
 * What cannot be measured here: who the callers are and what they do, and what the network between
 * is like. Each can be replaced with `--assumptions FILE`.
 */
export type Assumptions = z.infer<typeof assumptionsSchema>;
