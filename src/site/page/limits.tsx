import { raw } from "hono/html";
import { Columns, HttpExamples, Paragraphs, Section } from "./elements.tsx";
import { CodeLink } from "./operation.tsx";
import { BANS, bans, WINDOWS } from "../../openapi/description.ts";
import { PLAN_LIMITS } from "../../rules/limits/plans.ts";
import { Triggers } from "./live.tsx";
import type { PageFacts, Reference } from "./reference.ts";

/** The section about limits and bans. The picture is an SVG with placeholders for times. */
export function LimitsSection(props: Pick<Reference, "errors"> & PageFacts) {
  const { limitsPicture, isLocal, errors } = props;
  const graceSeconds = bans.graceMs / 1_000;
  const banSeconds = bans.firstBanMs / 1_000;
  const filled = limitsPicture
    .replaceAll("{graceSeconds}", String(graceSeconds))
    .replaceAll(/\{banSeconds\*(\d)\}/g, (_, times) => String(Number(times) * banSeconds));
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
          <HttpExamples response={errors.find(({ status }) => status === 429)} />
        </>
      }
    >
      <Paragraphs text={WINDOWS} />
      <table class="plans">
        <Columns titles={["Plan", "per minute", "per day"]} />
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
      <h3>When a client does not wait</h3>
      <Paragraphs text={BANS} />
      <p>
        Every refusal after the first {graceSeconds} seconds of a wait is a <b>strike</b>. A key is
        banned if it collects as many strikes within {bans.strikeWindowMs / 1_000} seconds as its
        limit per minute, but at least {bans.minStrikes} and at most{" "}
        {bans.maxStrikes.toLocaleString("en")}. A ban is also a 429, with the code{" "}
        <CodeLink code="api_key_banned" />. Requests during a ban change nothing.
      </p>
      <p class="note">These numbers are defaults. The operator of a service can change them.</p>
      {isLocal && <Triggers />}
    </Section>
  );
}
