import { WorkerEntrypoint } from "cloudflare:workers";
import * as z from "zod/mini";
import { dayOf, dayText } from "../../rules/days.ts";
import { isName } from "../../rules/keys/key-name.ts";
import { LOCATION_HINTS } from "../../rules/keys/location-hints.ts";
import { hashSecret, isSecret } from "../../rules/keys/secret.ts";
import { limitsOf } from "../../rules/keys/api-key.ts";
import { parseConfig } from "../../rules/config.ts";
import { type QuotaReport, reportQuota } from "../../rules/limits/quota-report.ts";
import { MAX_LIMIT, PLANS } from "../../rules/limits/plans.ts";
import { databaseTime } from "../../store/database.ts";
import { addKeys, changeKey, type Decide, type Operation } from "../../store/keys/change-key.ts";
import { describeKey, findApiKey, pageOfApiKeys } from "../../store/keys/find-keys.ts";
import {
  createApiKey,
  ownLimits,
  resetApiKey,
  revokeApiKey,
  rotateApiKey,
  updateApiKey,
} from "../../store/keys/key-settings.ts";
import { readUsage } from "../../store/keys/usage.ts";
import { Refusal } from "../../store/refusal.ts";
import { inJurisdiction } from "../jurisdiction.ts";
import { Limiter } from "../limiter/limiter.ts";
import {
  answer,
  closedObject,
  databaseOf,
  limitInput,
  type Refused,
  wholeNumber,
} from "./answer.ts";

const DEFAULT_GRACE_SECONDS = 86_400;
const MAX_GRACE_SECONDS = 90 * 86_400;
/** Housekeeping deletes older reports. */
const MAX_DAYS = 366;

const nameInput = z
  .string("expected a text")
  .check(
    z.refine(
      isName,
      "expected 1 to 100 characters, not only spaces, without control and direction characters",
    ),
  );
const oneOf = <const Names extends readonly string[]>(names: Names) =>
  z.enum(names, `expected one of ${names.join(", ")}`);
const planInput = oneOf(PLANS);
const requestsInput = z.optional(wholeNumber(1, MAX_LIMIT));
const optionalSettings = {
  perMinute: requestsInput,
  perDay: requestsInput,
  expiresAt: z.nullish(z.date("expected a Date")),
};
const ID_EXPECTED = "expected the id of a key";
const idInput = z.string(ID_EXPECTED).check(z.maxLength(100, ID_EXPECTED));

const createInput = z.object({
  key: closedObject({
    name: nameInput,
    plan: planInput,
    ...optionalSettings,
    near: z.optional(oneOf(LOCATION_HINTS)),
  }),
});
const updateInput = z.object({
  id: idInput,
  settings: closedObject({
    name: z.optional(nameInput),
    plan: z.optional(planInput),
    ...optionalSettings,
  }),
});
const graceSeconds = z._default(wholeNumber(0, MAX_GRACE_SECONDS), DEFAULT_GRACE_SECONDS);
const rotateInput = z.object({
  id: idInput,
  options: z.prefault(closedObject({ graceSeconds }), {}),
});
const usageOptions = closedObject({ days: z._default(wholeNumber(1, MAX_DAYS), 14) });
const usageInput = z.object({ id: idInput, options: z.prefault(usageOptions, {}) });
const listInput = z.prefault(closedObject({ after: z.nullish(idInput), limit: limitInput }), {});
const keyInput = z.object({ id: idInput });
const secretInput = z.object({ secret: z.string("expected a text") });

export type KeyRecord = ReturnType<typeof describeKey>;
export type Answered<T> = Promise<({ readonly ok: true } & T) | Refused>;
/** A key's id and its secret, which is returned only once and stored nowhere. */
export interface NewSecret {
  readonly id: string;
  readonly key: string;
}

let limiter: Limiter | undefined;

/** The name of the calling Worker in the audit trail, from `props` of its service binding. */
interface Props {
  readonly actor?: string;
}

/** The door for Workers of the same account that manage API keys (docs/operating.md). */
export class ApiKeys extends WorkerEntrypoint<Cloudflare.Env, Props> {
  /** Creates a key. An Enterprise key needs `perMinute` and `perDay`; other plans refuse them. */
  create(key: z.input<typeof createInput>["key"]): Answered<NewSecret> {
    return answer(createInput, { key }, async ({ key: { near = null, ...settings } }) => {
      const { name, plan, expiresAt = null } = settings;
      const given = { name, plan, limits: ownLimits(plan, settings), expiresAt };
      const now = await databaseTime(this.#database.orm);
      const created = createApiKey({ ...given, locationHint: near }, now);
      await addKeys(this.#database, [created.record], this.#actor);
      return { ok: true, id: created.record.id, key: created.key };
    });
  }

  /** Returns a key; `null` if no key has this id. */
  get(id: string): Promise<({ readonly ok: true } & KeyRecord) | null | Refused> {
    return answer(keyInput, { id }, (input) => this.#find(input.id));
  }

  /** Returns the key of a present or former secret; `null` if no key has it. */
  find(secret: string): Promise<({ readonly ok: true } & KeyRecord) | null | Refused> {
    return answer(secretInput, { secret }, async (input) =>
      isSecret(input.secret) ? this.#find({ hash: hashSecret(input.secret) }) : null,
    );
  }

  /**
   * Returns up to `limit` (100) keys in ascending id, after the id `after`; without it, the first ones.
   * `next` is the `after` of the next call, and `null` after the last key.
   */
  list(input?: {
    readonly after?: string | null;
    readonly limit?: number;
  }): Answered<{ readonly keys: readonly KeyRecord[]; readonly next: string | null }> {
    return answer(listInput, input, async ({ after, limit }) => {
      const now = await databaseTime(this.#database.orm);
      const page = await pageOfApiKeys(this.#database.orm, after ?? "", limit);
      const next = page.length < limit ? null : (page.at(-1)?.id ?? null);
      return { ok: true, keys: page.map((key) => describeKey(key, now)), next };
    });
  }

  /** Changes the settings that are given. `expiresAt: null` means never. */
  update(id: string, settings: z.input<typeof updateInput>["settings"]): Answered<KeyRecord> {
    return answer(updateInput, { id, settings }, (input) =>
      this.#change(input.id, "update", (key, now) => updateApiKey(key, input.settings, now)),
    );
  }

  /** Replaces the secret. The former one stays valid for `graceSeconds`, by default a day. */
  rotate(id: string, options?: { readonly graceSeconds?: number }): Answered<NewSecret> {
    return answer(rotateInput, { id, options }, async (input) => {
      let secret = "";
      await this.#change(input.id, "rotate", (current, now) => {
        const { key, record } = rotateApiKey(current, now, input.options.graceSeconds * 1_000);
        secret = key;
        return record;
      });
      return { ok: true, id: input.id, key: secret };
    });
  }

  /** Ends all secrets of a key for good. */
  revoke(id: string): Answered<KeyRecord> {
    return answer(keyInput, { id }, (input) => this.#change(input.id, "revoke", revokeApiKey));
  }

  /** Empties both windows of a key and forgets its bans. */
  reset(id: string): Answered<KeyRecord> {
    return answer(keyInput, { id }, (input) => this.#change(input.id, "reset", resetApiKey));
  }

  /** Returns what a key used on the last `days` (14) in UTC, as reported: up to an hour late. */
  usage(
    id: string,
    options?: { readonly days?: number },
  ): Answered<{ readonly days: Awaited<ReturnType<typeof readUsage>> }> {
    return answer(usageInput, { id, options }, async (input) => {
      const { orm } = this.#database;
      if ((await findApiKey(orm, input.id)) === undefined) throw unknownKey();
      const today = dayOf((await databaseTime(orm)).getTime());
      const days = await readUsage(orm, input.id, dayText(today - input.options.days + 1));
      return { ok: true, days };
    });
  }

  /** Returns what `GET /v1/quota` says of a key. Counts nothing. */
  quota(
    id: string,
  ): Answered<Pick<KeyRecord, "plan" | "expiresAt"> & { readonly keyId: string } & QuotaReport> {
    return answer(keyInput, { id }, async (input) => {
      const key = await findApiKey(this.#database.orm, input.id);
      if (key === undefined) throw unknownKey();
      const { id: keyId, plan, expiresAt, revision, resets, locationHint } = key;
      const limited = { keyId, limits: limitsOf(key), revision, resets, locationHint };
      const config = parseConfig(this.env);
      limiter ??= new Limiter(config);
      const quota = await limiter.look(limited, {
        objects: inJurisdiction(this.env, config).RATE_LIMITER,
        requestId: crypto.randomUUID(),
        waitUntil: (promise) => this.ctx.waitUntil(promise),
      });
      if (quota === null) throw new Error("The limiter of the key does not respond.");
      return { ok: true, keyId, plan, expiresAt, ...reportQuota(quota) };
    });
  }

  async #find(by: Parameters<typeof findApiKey>[1]) {
    const { orm } = this.#database;
    const key = await findApiKey(orm, by);
    if (key === undefined) return null;
    return { ok: true as const, ...describeKey(key, await databaseTime(orm)) };
  }

  async #change(id: string, action: Operation["action"], decide: Decide) {
    const operation = { action, actor: this.#actor };
    const [key, now] = await changeKey(this.#database, id, operation, decide);
    return { ok: true as const, ...describeKey(key, now) };
  }

  get #database() {
    return databaseOf(this.env, "keys");
  }

  get #actor(): string {
    return this.ctx.props.actor ?? "service binding";
  }
}

const unknownKey = () => new Refusal("key_not_found", "no key has this id");
