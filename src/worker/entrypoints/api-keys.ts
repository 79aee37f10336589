import { WorkerEntrypoint } from "cloudflare:workers";
import * as z from "zod/mini";
import { lastDays } from "../../rules/days.ts";
import { isName, NAME_RULE } from "../../rules/keys/key-name.ts";
import { LOCATION_HINTS } from "../../rules/keys/location-hints.ts";
import { hashSecret, isSecret } from "../../rules/keys/secret.ts";
import { reportQuota } from "../../rules/limits/quota-report.ts";
import { MAX_LIMIT, PLANS } from "../../rules/limits/plans.ts";
import { databaseTime } from "../../store/database.ts";
import { addKeys, changeKey, type Decide, type Operation } from "../../store/keys/change-key.ts";
import {
  describeKey,
  findApiKey,
  pageOfApiKeys,
  requireApiKey,
} from "../../store/keys/find-keys.ts";
import {
  createApiKey,
  ownLimits,
  resetApiKey,
  revokeApiKey,
  rotateApiKey,
  updateApiKey,
} from "../../store/keys/key-settings.ts";
import { Refusal } from "../../store/refusal.ts";
import { readUsage } from "../../store/keys/usage.ts";
import { config, limiter } from "../isolate.ts";
import { inJurisdiction } from "../jurisdiction.ts";
import { limitedKeyOf } from "../limiter/object-call.ts";
import { answer, databases, dateInput, limitInput, wholeNumber } from "./answer.ts";

const name = z.string().check(z.refine(isName, `expected ${NAME_RULE}`));
const plan = z.enum(PLANS);
const requests = z.optional(wholeNumber(1, MAX_LIMIT));
const keyLimits = { perMinute: requests, perDay: requests, expiresAt: z.nullish(dateInput) };
const near = z.optional(z.enum(LOCATION_HINTS));
const idInput = z.string().check(z.maxLength(100));
const createInput = z.object({ key: z.strictObject({ name, plan, ...keyLimits, near }) });
const changes = z.strictObject({ name: z.optional(name), plan: z.optional(plan), ...keyLimits });
const updateInput = z.object({ id: idInput, settings: changes });
const rotateOptions = z.strictObject({
  graceSeconds: z._default(wholeNumber(0, 90 * 86_400), 86_400),
});
const rotateInput = z.object({ id: idInput, options: z.prefault(rotateOptions, {}) });
// Housekeeping deletes older reports.
const usageOptions = z.strictObject({ days: z._default(wholeNumber(1, 366), 14) });
const usageInput = z.object({ id: idInput, options: z.prefault(usageOptions, {}) });
const listInput = z.prefault(z.strictObject({ after: z.nullish(idInput), limit: limitInput }), {});
const keyInput = z.object({ id: idInput });
const secretInput = z.object({ secret: z.string() });

const { keys } = databases;

/**
 * The door for Workers of the same account that manage API keys (docs/operating.md). `actor` names the
 * calling Worker in the audit trail.
 */
export class ApiKeys extends WorkerEntrypoint<Cloudflare.Env, { readonly actor?: string }> {
  /**
   * Creates a key. An Enterprise key needs `perMinute` and `perDay`; other plans refuse them.
   *
   * @returns the id, and as `key` the secret, which is returned only once and stored nowhere.
   */
  create(key: z.input<typeof createInput>["key"]) {
    return answer(createInput, { key }, async ({ key: { near: locationHint, ...settings } }) => {
      const limits = ownLimits(settings.plan, settings);
      const now = await databaseTime(keys.orm);
      const created = createApiKey({ ...settings, limits, locationHint }, now);
      await addKeys(keys, [created.record], this.#actor);
      return { id: created.record.id, key: created.key };
    });
  }

  /** Returns a key; `null` if no key has this id. */
  get(id: string) {
    return answer(keyInput, { id }, (input) => find(input.id));
  }

  /** Returns the key of a present or former secret; `null` if no key has it. */
  find(secret: string) {
    return answer(secretInput, { secret }, async (input) =>
      isSecret(input.secret) ? find({ hash: hashSecret(input.secret) }) : null,
    );
  }

  /**
   * Returns up to `limit` (100) keys in ascending id, after the id `after`; without it, the first ones.
   * `next` is the `after` of the next call, and `null` after the last key.
   */
  list(input?: z.input<typeof listInput>) {
    return answer(listInput, input, async ({ after, limit }) => {
      const now = await databaseTime(keys.orm);
      const page = await pageOfApiKeys(keys.orm, after ?? "", limit);
      const next = page.length < limit ? null : (page.at(-1)?.id ?? null);
      return { keys: page.map((key) => describeKey(key, now)), next };
    });
  }

  /** Changes the settings that are given. `expiresAt: null` means never. */
  update(id: string, settings: z.input<typeof updateInput>["settings"]) {
    return answer(updateInput, { id, settings }, (input) =>
      this.#change(input.id, "update", (key, now) => updateApiKey(key, input.settings, now)),
    );
  }

  /** Replaces the secret. The former one stays valid for `graceSeconds`, by default a day. */
  rotate(id: string, options?: z.input<typeof rotateInput>["options"]) {
    return answer(rotateInput, { id, options }, async (input) => {
      let secret = "";
      await this.#change(input.id, "rotate", (current, now) => {
        const { key, record } = rotateApiKey(current, now, input.options.graceSeconds * 1_000);
        secret = key;
        return record;
      });
      return { id: input.id, key: secret };
    });
  }

  /** Ends all secrets of a key for good. */
  revoke(id: string) {
    return answer(keyInput, { id }, (input) => this.#change(input.id, "revoke", revokeApiKey));
  }

  /** Empties both windows of a key and forgets its bans. */
  reset(id: string) {
    return answer(keyInput, { id }, (input) => this.#change(input.id, "reset", resetApiKey));
  }

  /** Returns what a key used on the last `days` (14) in UTC, as reported: up to an hour late. */
  usage(id: string, options?: z.input<typeof usageInput>["options"]) {
    return answer(usageInput, { id, options }, async (input) => {
      await requireApiKey(keys.orm, input.id);
      const days = lastDays((await databaseTime(keys.orm)).getTime(), input.options.days);
      return { days: await readUsage(keys.orm, input.id, days) };
    });
  }

  /** Returns what `GET /v1/quota` says of a key. Counts nothing. */
  quota(id: string) {
    return answer(keyInput, { id }, async (input) => {
      const key = await requireApiKey(keys.orm, input.id);
      const quota = await limiter.look(limitedKeyOf(key), {
        objects: inJurisdiction(this.env, config).RATE_LIMITER,
        requestId: crypto.randomUUID(),
        waitUntil: (promise) => this.ctx.waitUntil(promise),
      });
      if (quota === null) throw new Error("The limiter of the key does not respond.");
      return { keyId: key.id, plan: key.plan, expiresAt: key.expiresAt, ...reportQuota(quota) };
    });
  }

  async #change(id: string, action: Operation["action"], decide: Decide) {
    const actor = this.#actor;
    return describeKey(...(await changeKey(keys, id, { action, actor }, decide)));
  }

  get #actor(): string {
    const { success, data } = z._default(name, "service binding").safeParse(this.ctx.props.actor);
    if (success) return data;
    throw new Refusal("invalid_input", `props.actor of the service binding: expected ${NAME_RULE}`);
  }
}

async function find(by: Parameters<typeof findApiKey>[1]) {
  const key = await findApiKey(keys.orm, by);
  return key === undefined ? null : describeKey(key, await databaseTime(keys.orm));
}
