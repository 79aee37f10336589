import { raw } from "hono/html";
import { HttpAnswers, Section } from "./elements.tsx";
import { CodeLink } from "./operation.tsx";
import { parseConfig } from "../../rules/config.ts";
import { PLAN_LIMITS } from "../../rules/limits/plans.ts";
import type { Reference } from "./reference.ts";

/** The default configuration of bans. All times are in milliseconds. */
export const { bans } = parseConfig({});

/** The section about limits and bans. The `picture` is an SVG with placeholders for times. */
export function LimitsSection(props: { picture: string; errors: Reference["errors"] }) {
  const { picture, errors } = props;
  const graceSeconds = bans.graceMs / 1_000;
  const banSeconds = bans.firstBanMs / 1_000;
  const filled = picture
    .replaceAll("{graceSeconds}", String(graceSeconds))
    .replaceAll("{banSeconds}", String(banSeconds))
    .replaceAll("{secondBanSeconds}", String(2 * banSeconds))
    .replaceAll("{thirdBanSeconds}", String(4 * banSeconds));
  return (
    <Section
      id="limits"
      title="Limits and bans"
      aside={
        <>
          <figure>
            {raw(filled)}
            <figcaption>
              Two clients with the same limit. The client that waits for <code>Retry-After</code>{" "}
              has its full minute back. The client that keeps sending is locked out for longer.
            </figcaption>
          </figure>
          <HttpAnswers answer={errors.find(({ status }) => status === 429)} code="api_key_banned" />
        </>
      }
    >
      <h3>Two windows</h3>
      <p>
        A key has two windows, a <b>minute</b> and a <b>day</b>. A window opens with the first
        counted request and ends exactly one minute or one day later. A request is admitted only if
        both windows have room, and then counts in both.
      </p>
      <table class="plans">
        <thead>
          <tr>
            <th>Plan</th>
            <th>per minute</th>
            <th>per day</th>
          </tr>
        </thead>
        <tbody>
          {Object.entries(PLAN_LIMITS).map(([plan, { perMinute, perDay }]) => (
            <tr>
              <th scope="row">{plan}</th>
              <td>{perMinute.toLocaleString("en")}</td>
              <td>{perDay.toLocaleString("en")}</td>
            </tr>
          ))}
          <tr>
            <th scope="row">enterprise</th>
            <td colspan={2}>set for each key</td>
          </tr>
        </tbody>
      </table>
      <h3>When a window is full</h3>
      <p>
        The answer is <b>429</b>. Its header <code>Retry-After</code> names the seconds until the
        window has room again. A refused request does not count. If you wait this long, the next
        request is admitted.
      </p>
      <h3>When a client does not wait</h3>
      <p>
        The first {graceSeconds} seconds of a wait are its <b>grace</b>: refusals are free, because
        the requests were already under way. Every later refusal is a <b>strike</b>.
      </p>
      <p>
        A key is <b>banned</b> if it collects as many strikes within {bans.strikeWindowMs / 1_000}{" "}
        seconds as its limit per minute, but at least {bans.minStrikes} and at most{" "}
        {bans.maxStrikes.toLocaleString("en")}. The first ban lasts {banSeconds} seconds. Each
        further ban lasts twice as long, up to {bans.longestBanMs / 3_600_000} hours.
      </p>
      <p>
        A ban is also a 429, with the code <CodeLink code="api_key_banned" />. Requests during a ban
        change nothing. A client that waits, or doubles its pause after each refusal, is never
        banned.
      </p>
      <p class="note">These numbers are defaults. The operator of a service can change them.</p>
    </Section>
  );
}
