import { html } from "hono/html";
import type { Child } from "hono/jsx";
import { VERSIONS } from "../../openapi/description.ts";
import { EXACT_READERS, JQ_WARNING, ROUNDING_WARNING } from "../../openapi/exact-integers.ts";
import { Code, HttpExamples, Inline, Paragraphs, Samples, Section, Tabs } from "./elements.tsx";
import { Header } from "./header.tsx";
import { LimitsSection } from "./limits.tsx";
import { LiveParts } from "./live.tsx";
import { ErrorTable, Fields, HeaderTable, OperationSection, Status, tabsOf } from "./operation.tsx";
import { LOCAL_ORIGIN, type PageFacts, readReference, type Reference } from "./reference.ts";
import { CLIENT, KEY, ORIGIN, samplesOf } from "./samples.ts";

const NAVIGATION = [
  ["listOrders", "List"],
  ["cancelOrder", "Cancel"],
  ["getQuota", "Quota"],
  ["authentication", "Authentication"],
  ["int64", "Integers"],
  ["clients", "Clients"],
  ["limits", "Limits"],
  ["headers", "Headers"],
  ["errors", "Errors"],
] as const;

const NEAR_READS =
  "A list may be a second or two old, but it is complete, shows the store at one moment, and never contains an order that the same key has cancelled.";

/** Renders the reference page. @throws an Error if an operation has no samples. */
export async function renderPage(facts: PageFacts): Promise<string> {
  const reference = readReference(facts.document);
  const page = <Page facts={facts} reference={reference} />;
  // The script of the page puts the reader's key and the page's address into these elements.
  return String(await html`<!doctype html>${page}`)
    .replaceAll(KEY, `<span data-key>${KEY}</span>`)
    .replaceAll(ORIGIN, `<span data-origin>${reference.origin}</span>`);
}

type PageProps = Readonly<{ facts: PageFacts; reference: Reference }>;

function Page({ facts, reference }: PageProps) {
  return (
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <meta name="description" content={`${reference.summary} Reference, samples, answers.`} />
        <title>{`${reference.title} API`}</title>
        <link rel="icon" href="/favicon.svg" type="image/svg+xml" />
        <link rel="stylesheet" href="/style.css" />
        <script src="/main.js" type="module"></script>
      </head>
      <body>
        <a class="skip" href="#main">
          Skip to the content
        </a>
        <Header {...reference} />
        <nav class="sections" aria-label="Sections">
          {NAVIGATION.map(([id, title]) => (
            <a href={`#${id}`}>{title}</a>
          ))}
          <a href="/openapi.json">openapi.json</a>
        </nav>
        <main id="main" tabindex={-1}>
          <Introduction {...reference} />
          <Operations facts={facts} reference={reference} />
          <Authentication {...reference} />
          <Integers />
          <Clients {...facts} />
          <LimitsSection {...facts} errors={reference.errors} />
          <Section id="headers" title="Headers of answers">
            <HeaderTable headers={reference.headers} />
          </Section>
          <Section
            id="errors"
            title="Errors"
            aside={
              <Tabs
                name="errors-answer"
                label="Errors of every operation by status"
                tabs={tabsOf(reference.errors.filter(reference.isEverywhere))}
              />
            }
          >
            <p>
              Every error has this body.
              <Contact {...reference} before=" Report a 500 with its X-Request-Id: " />
            </p>
            <Fields prefix="Error" fields={reference.errorFields} />
          </Section>
          <section class="more" aria-label="Error codes">
            <ErrorTable errors={reference.errors} />
          </section>
          <Section id="versions" title="Versions">
            <div class="measure">
              <Paragraphs text={VERSIONS} />
            </div>
          </Section>
        </main>
        <LiveParts />
      </body>
    </html>
  );
}

function Introduction(reference: Reference) {
  return (
    <section class="intro" aria-labelledby="intro-title">
      <h1 id="intro-title">List the orders of a store. Cancel what has not shipped.</h1>
      <p class="lede">
        HTTP at <code>{`${ORIGIN}${reference.basePath}`}</code>, one API key, exact 64-bit integers,
        and limits that every answer shows.
      </p>
      <ol class="steps">
        <li>
          <b>Get a key.</b> The operator of the service creates one for you
          <Contact {...reference} before=": ask " />.{" "}
          <span class="local-only">
            On your own machine <code>npm start</code> prints four demo keys.
          </span>
        </li>
        <li>
          <b>Enter the key.</b>{" "}
          <span class="needs-script">
            It goes into the field at the top, once. Copied samples have it. It stays in this page's
            memory until you close the page.
          </span>
          <span class="scripting-none">
            Put it into a sample, in place of <code>{KEY}</code>. Replace the address too, if the
            service is not at <code>{ORIGIN}</code>.
          </span>
        </li>
        <li>
          <b>Send the first request.</b> Copy a sample, or press Send below it: the answer appears
          there. <span class="scripting-none">Sending from this page needs JavaScript.</span>
        </li>
      </ol>
    </section>
  );
}

/** The operator's address, after the text `before`; nothing if the operator has set no address. */
function Contact({ contact, before }: Pick<Reference, "contact"> & { readonly before: string }) {
  const { email, url } = contact ?? {};
  const href = email === undefined ? url : `mailto:${email}`;
  return (
    href !== undefined && (
      <>
        {before}
        <a href={href}>{email ?? url}</a>
      </>
    )
  );
}

function Operations({ facts, reference }: PageProps) {
  const remarks: Readonly<Record<string, Child>> = {
    listOrders: (
      <>
        {facts.hasNearReads && <p>{NEAR_READS}</p>}
        <p class="warning">
          <Inline text={ROUNDING_WARNING} /> <a href="#int64">Read integers exactly.</a>
        </p>
      </>
    ),
    cancelOrder: (
      <p class="warning">
        Send exactly the digits of the id in the list. A rounded id can cancel another order.{" "}
        <a href="#int64">Read integers exactly.</a>
      </p>
    ),
  };
  return (
    <>
      {reference.operations.map((operation) => (
        <OperationSection {...reference} operation={operation} samples={samplesOf(operation)}>
          {remarks[operation.operationId]}
        </OperationSection>
      ))}
    </>
  );
}

function Authentication({ authentication, errors }: Reference) {
  const refused = errors.find(({ status }) => status === 401);
  return (
    <Section
      id="authentication"
      title="Authentication"
      aside={
        <>
          <Code code={`Authorization: Bearer ${KEY}`} syntax="http" label="Key header" copy />
          <HttpExamples response={refused} />
        </>
      }
    >
      <p>
        <Inline text={authentication} />
      </p>
      <p>
        Every request needs the key, even a request for an unknown path. A key anywhere else, such
        as in the query string or a cookie, is ignored. The service shows a key once, and stores
        only its hash. The operator can replace a lost key.
      </p>
      <h3>Without a valid key</h3>
      <p>
        {refused && <Status response={refused} />}: <Inline text={refused?.description ?? ""} />
      </p>
    </Section>
  );
}

function Integers() {
  return (
    <Section
      id="int64"
      title="Read integers exactly"
      aside={
        <Samples
          name="exact"
          label="Exact integers"
          samples={EXACT_READERS.map(({ language, lines }) => ({ language, code: lines }))}
        />
      }
    >
      <p class="warning">
        <Inline text={ROUNDING_WARNING} /> <Inline text={JQ_WARNING} />
      </p>
      <p>
        Identifiers and quantities are 64-bit integers, sent as JSON numbers with every digit. The
        lines of code for each language keep these integers exact.
      </p>
      <Paragraphs
        text={EXACT_READERS.map(({ language, note }) => `${language}: ${note}`).join("\n\n")}
      />
    </Section>
  );
}

function Clients({ generatedClient, clientPackage }: PageFacts) {
  return (
    <Section
      id="clients"
      title="Clients"
      aside={
        <Samples
          name="client"
          label="Client"
          samples={[
            {
              language: "Our client",
              syntax: "bash",
              code: `npm install ${ORIGIN}/${clientPackage}`,
            },
            ...generatedClient.map(({ fence, code }) => ({
              language: /^\/\/ (\S+)/.exec(code)?.[1] ?? "openapi-typescript",
              syntax: fence === "sh" ? ("bash" as const) : ("ts" as const),
              code: code.replaceAll(LOCAL_ORIGIN, ORIGIN),
            })),
          ]}
        />
      }
    >
      <p>
        <b>TypeScript and JavaScript.</b> The package <code>{CLIENT}</code> keeps every digit,
        retries temporary failures, and stays within the limits of its key.
      </p>
      <p>
        <b>Generated clients.</b> Generators create a client from{" "}
        <a href="/openapi.json">openapi.json</a>. Generated clients read answers with{" "}
        <code>JSON.parse</code>, which rounds large integers. The function <code>exact</code> in the
        sample keeps ids exact.
      </p>
      <p>
        <b>Language models.</b> <a href="/llms.txt">llms.txt</a> is this reference as plain text.
      </p>
    </Section>
  );
}
