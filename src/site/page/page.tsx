import { html } from "hono/html";
import { VERSIONS } from "../../openapi/description.ts";
import { EXACT_READERS, JQ_WARNING, ROUNDING_WARNING } from "../../openapi/exact-integers.ts";
import { ConsoleSection, KeyForm } from "./console.tsx";
import { Code, HttpAnswers, Inline, Paragraphs, Samples, Section } from "./elements.tsx";
import { LimitsSection } from "./limits.tsx";
import { ErrorTable, Fields, HeaderTable, OperationSection } from "./operation.tsx";
import { LOCAL_ORIGIN, type PageFacts, readReference, type Reference } from "./reference.ts";
import { cancelSamples, CLIENT, KEY, listSamples, ORIGIN } from "./samples.ts";

const NAVIGATION = [
  ["authentication", "Authentication"],
  ["listOrders", "List"],
  ["cancelOrder", "Cancel"],
  ["getQuota", "Quota"],
  ["int64", "Integers"],
  ["clients", "Clients"],
  ["try", "Try it"],
  ["limits", "Limits"],
  ["headers", "Headers"],
  ["errors", "Errors"],
] as const;

const NEAR_READS =
  "A list may be a second or two old, but it is complete, shows the store at one moment, and never contains an order that the same key has cancelled.";

/** Renders the reference page. @throws an Error unless its operations are list, cancel and quota. */
export async function renderPage(facts: PageFacts): Promise<string> {
  const reference = readReference(facts.document);
  const page = <Page facts={facts} reference={reference} />;
  // The script of the page puts the reader's key and the page's address into these elements.
  return String(await html`<!doctype html>${page}`)
    .replaceAll(KEY, `<span data-key>${KEY}</span>`)
    .replaceAll(ORIGIN, `<span data-origin>${reference.origin}</span>`);
}

interface PageProps {
  readonly facts: PageFacts;
  readonly reference: Reference;
}

function Page({ facts, reference }: PageProps) {
  return (
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <meta name="description" content={`${reference.summary} First call, reference, console.`} />
        <title>{`${reference.title} API`}</title>
        <link rel="icon" href="/favicon.svg" type="image/svg+xml" />
        <link rel="stylesheet" href="/style.css" />
        <link rel="stylesheet" href="/console.css" />
        <script src="/main.js" type="module"></script>
      </head>
      <body>
        <a class="skip" href="#main">
          Skip to the content
        </a>
        <header class="top">
          <p class="brand">
            <a href="#main">{reference.title} API</a>{" "}
            <span class="version">{reference.version}</span>
          </p>
          <nav aria-label="Sections">
            {NAVIGATION.map(([id, title]) => (
              <a href={`#${id}`}>{title}</a>
            ))}
            <a href="/openapi.json">openapi.json</a>
          </nav>
        </header>
        <main id="main" tabindex={-1}>
          <FirstCall {...reference} />
          <Authentication {...reference} />
          <Operations facts={facts} reference={reference} />
          <Integers />
          <Clients {...facts} />
          <ConsoleSection fields={reference.orderFields} />
          <LimitsSection picture={facts.limitsPicture} errors={reference.errors} />
          <Section id="headers" title="Headers of answers">
            <HeaderTable headers={reference.headers} />
          </Section>
          <Section id="errors" title="Errors">
            <p class="measure">
              Every error has this body.
              <Contact {...reference} before=" Report a 500 with its X-Request-Id: " />
            </p>
            <Fields prefix="Error" fields={reference.errorFields} />
            <ErrorTable errors={reference.errors} />
          </Section>
          <Section id="versions" title="Versions">
            <div class="measure">
              <Paragraphs text={VERSIONS} />
            </div>
          </Section>
        </main>
      </body>
    </html>
  );
}

function FirstCall(reference: Reference) {
  const { list } = reference;
  const answer = list.answers.find(({ status }) => status === 200);
  return (
    <section class="split intro" aria-labelledby="intro-title">
      <div class="text">
        <h1 id="intro-title">List the orders of a store. Cancel what has not shipped.</h1>
        <p class="lede">
          Two operations over HTTP, one API key, exact 64-bit integers, and limits that every answer
          shows.
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
            <b>Paste the key.</b>{" "}
            <span class="needs-script">
              A sample that you copy has the key. The key stays in this page's memory until you
              close the page.
            </span>
            <span class="scripting-none">
              Put it into a sample, in place of <code>{KEY}</code>. Replace the address too, if the
              service is not at <code>{ORIGIN}</code>.
            </span>
            <KeyForm id="first-call" field="first-key" />
          </li>
          <li>
            <b>Send the request.</b> Copy a sample, or let the <a href="#try">console</a> send it.
            The base address is <code>{`${ORIGIN}${reference.basePath}`}</code>.
          </li>
        </ol>
      </div>
      <div class="aside">
        <Samples name="first" label="First call" samples={listSamples(list.path)} />
        <HttpAnswers answer={answer} isComplete />
      </div>
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

function Authentication({ authentication, list }: Reference) {
  const answer = list.answers.find(({ status }) => status === 401);
  return (
    <Section
      id="authentication"
      title="Authentication"
      aside={
        <>
          <Code code={`Authorization: Bearer ${KEY}`} syntax="http" label="Key header" copy />
          <HttpAnswers answer={answer} />
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
      <p>
        <Inline text={answer?.description ?? ""} />
      </p>
    </Section>
  );
}

function Operations({ facts, reference }: PageProps) {
  const { list, cancel, quota, orderFields } = reference;
  const orderId = cancel.parameters.find(({ name }) => name === "orderId")?.example;
  return (
    <>
      <OperationSection operation={list} samples={listSamples(list.path)}>
        {facts.hasNearReads && <p>{NEAR_READS}</p>}
        <p class="warning">
          <Inline text={ROUNDING_WARNING} /> <a href="#int64">Read integers exactly.</a>
        </p>
        <h3>An order</h3>
        <Fields prefix="Order" fields={orderFields} />
      </OperationSection>
      <OperationSection operation={cancel} samples={cancelSamples(cancel.path, String(orderId))}>
        <p class="warning">
          Send exactly the digits of the id in the list. A rounded id can cancel another order.{" "}
          <a href="#int64">Read integers exactly.</a>
        </p>
      </OperationSection>
      <Section
        id={quota.operationId}
        title={quota.summary}
        aside={<HttpAnswers answer={quota.answers.find(({ status }) => status === 200)} />}
      >
        <p>
          <b class="method get">{quota.method}</b> <code>{quota.path}</code>
        </p>
        <Paragraphs text={`${quota.description}\n\n${quota.answers[0]?.description}`} />
      </Section>
    </>
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
