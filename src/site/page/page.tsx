import { html } from "hono/html";
import { EXACT_READERS, JQ_WARNING, ROUNDING_WARNING } from "../../openapi/exact-integers.ts";
import { ConsoleSection, KeyField } from "./console.tsx";
import { Code, HttpAnswers, Inline, Samples, Section, Tabs } from "./elements.tsx";
import { LimitsSection } from "./limits.tsx";
import { ErrorTable, Fields, HeaderTable, OperationSection } from "./operation.tsx";
import {
  LOCAL_ORIGIN,
  type Operation,
  type PageFacts,
  readReference,
  type Reference,
} from "./reference.ts";
import { cancelSamples, CLIENT, KEY, listSamples, ORIGIN, type Sample } from "./samples.ts";

const NAVIGATION = [
  ["authentication", "Authentication"],
  ["listOrders", "List"],
  ["cancelOrder", "Cancel"],
  ["int64", "Integers"],
  ["clients", "Clients"],
  ["try", "Try it"],
  ["limits", "Limits"],
  ["headers", "Headers"],
  ["errors", "Errors"],
] as const;

const NEAR_READS =
  "A list may be a second or two old, but it is complete, shows the store at one moment, and never contains an order that the same key has cancelled.";

const INSTALL = `npm install ./${CLIENT}-1.0.0.tgz`;

interface PageProps {
  readonly facts: PageFacts;
  readonly reference: Reference;
  readonly list: Operation;
  readonly cancel: Operation;
  readonly listing: readonly Sample[];
}

/** Renders the reference page. @throws an Error unless its operations are list and cancel. */
export async function renderPage(facts: PageFacts): Promise<string> {
  const reference = readReference(facts.document);
  const { operations, basePath, origin } = reference;
  const names = operations.map((one) => `${one.method} ${one.operationId}`).join(", ");
  const [list, cancel] = operations;
  if (names !== "GET listOrders, DELETE cancelOrder" || !list || !cancel) {
    throw new Error(`The page cannot show these operations: ${names}.`);
  }
  const listing = listSamples(`${basePath}${list.path}`);
  const page = (
    <Page facts={facts} reference={reference} list={list} cancel={cancel} listing={listing} />
  );
  // The script of the page puts the reader's key and the page's address into these elements.
  return String(await html`<!doctype html>${page}`)
    .replaceAll(KEY, `<span data-key>${KEY}</span>`)
    .replaceAll(ORIGIN, `<span data-origin>${origin}</span>`);
}

function Page(props: PageProps) {
  const { reference } = props;
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
          <FirstCall {...props} />
          <Authentication {...props} />
          <Operations {...props} />
          <Integers />
          <Clients {...props} />
          <ConsoleSection fields={reference.orderFields} />
          <LimitsSection picture={props.facts.limitsPicture} errors={reference.errors} />
          <Tables reference={reference} />
          <Versions />
        </main>
      </body>
    </html>
  );
}

function FirstCall({ reference, list, listing }: PageProps) {
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
            <Contact reference={reference} before=": ask " />.{" "}
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
            <form id="first-call" class="control needs-script">
              <KeyField id="first-key" />
              <button type="submit" class="primary" data-sends="list">
                List orders
              </button>
            </form>
          </li>
          <li>
            <b>Send the request.</b> Copy a sample, or let the <a href="#try">console</a> send it.
            The base address is{" "}
            <code>
              {ORIGIN}
              {reference.basePath}
            </code>
            .
          </li>
        </ol>
      </div>
      <div class="aside">
        <Samples name="first" label="First call" samples={listing} />
        <HttpAnswers answer={answer} isComplete />
      </div>
    </section>
  );
}

/** The operator's address, after the text `before`; nothing if the operator has set no address. */
function Contact(props: { readonly reference: Reference; readonly before: string }) {
  const { email, url } = props.reference.contact ?? {};
  const href = email === undefined ? url : `mailto:${email}`;
  return (
    href !== undefined && (
      <>
        {props.before}
        <a href={href}>{email ?? url}</a>
      </>
    )
  );
}

function Authentication({ reference, list }: PageProps) {
  const answer = list.answers.find(({ status }) => status === 401);
  return (
    <Section
      id="authentication"
      title="Authentication"
      aside={
        <>
          <Code
            code={`Authorization: Bearer ${KEY}`}
            syntax="http"
            label="Header with the key"
            copy
          />
          <HttpAnswers answer={answer} />
        </>
      }
    >
      <p>
        <Inline text={reference.authentication} />
      </p>
      <p>
        Every request needs the key, even a request for an unknown path. A key anywhere else, such
        as in the query string or a cookie, is ignored.
      </p>
      <h3>Where a key comes from</h3>
      <p>
        The operator creates a key and hands it over. The service shows a key once and stores only
        its hash, so nobody can look the key up later. The operator can replace a lost key.
      </p>
      <p>
        Without a valid key the answer is <b>401</b>. Such a request counts against the budget of
        the client's IP address.
      </p>
    </Section>
  );
}

function Operations({ facts, reference, list, cancel, listing }: PageProps) {
  const path = `${reference.basePath}${cancel.path}`;
  const orderId = cancel.parameters.find(({ name }) => name === "orderId")?.example;
  return (
    <>
      <OperationSection
        basePath={reference.basePath}
        operation={list}
        samples={listing}
        notes={
          <>
            {facts.hasNearReads && <p>{NEAR_READS}</p>}
            <p class="warning">
              <Inline text={ROUNDING_WARNING} /> <a href="#int64">Read integers exactly.</a>
            </p>
          </>
        }
      >
        <h3>An order</h3>
        <Fields prefix="Order" fields={reference.orderFields} />
      </OperationSection>
      <OperationSection
        basePath={reference.basePath}
        operation={cancel}
        samples={cancelSamples(path, String(orderId))}
        notes={
          <p class="warning">
            Send exactly the digits of the id in the list. A rounded id can cancel another order.{" "}
            <a href="#int64">Read integers exactly.</a>
          </p>
        }
      />
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
      <dl class="fields">
        {EXACT_READERS.map(({ language, note }) => (
          <div>
            <dt>{language}</dt>
            <dd>
              <Inline text={note} />
            </dd>
          </div>
        ))}
      </dl>
    </Section>
  );
}

function Clients({ facts }: PageProps) {
  return (
    <Section
      id="clients"
      title="Clients"
      aside={
        <Tabs
          name="client"
          label="Client"
          tabs={[
            {
              title: "Our client",
              content: <Code code={INSTALL} syntax="bash" label="Install the client" copy />,
            },
            {
              title: "openapi-typescript",
              content: facts.generatedClient.map(({ fence, code }, index) => (
                <Code
                  code={code.replaceAll(LOCAL_ORIGIN, ORIGIN)}
                  syntax={fence === "sh" ? "bash" : "ts"}
                  label={`Generated client, part ${index + 1}`}
                  copy
                />
              )),
            },
          ]}
        />
      }
    >
      <p>
        <b>TypeScript and JavaScript.</b> The package <code>{CLIENT}</code> keeps every digit,
        retries temporary failures, and stays within the limits of its key. The package is not
        published. The operator builds the file with <code>npm pack --workspace {CLIENT}</code> in
        the service's repository, and hands it over.
      </p>
      <p>
        <b>Generated clients.</b> Generators create a client from{" "}
        <a href="/openapi.json">openapi.json</a>. Generated clients read answers with{" "}
        <code>JSON.parse</code>, which rounds large integers. With the file <code>exact.ts</code>,
        which the tab openapi-typescript shows, generated clients keep ids exact.
      </p>
      <p>
        <b>Language models.</b> <a href="/llms.txt">llms.txt</a> is this reference as plain text.
      </p>
    </Section>
  );
}

function Tables({ reference }: { readonly reference: Reference }) {
  return (
    <>
      <Section id="headers" title="Headers of answers">
        <HeaderTable headers={reference.headers} />
      </Section>
      <Section id="errors" title="Errors">
        <p class="measure">
          Every error has the same body with exactly three fields. Programs decide by{" "}
          <code>code</code>, because the text of a message may change.
          <Contact reference={reference} before=" Report a 500 with its X-Request-Id: " />
        </p>
        <Fields prefix="Error" fields={reference.errorFields} />
        <ErrorTable errors={reference.errors} />
      </Section>
    </>
  );
}

function Versions() {
  return (
    <Section id="versions" title="Versions">
      <p class="measure">
        The version of the API is in the address. Within a version, nothing is removed, renamed or
        given another meaning. Filtering and pagination of the list will come with v2, at a new
        address. Before a version ends, its answers announce the end in the headers{" "}
        <code>Deprecation</code> and <code>Sunset</code>.
      </p>
    </Section>
  );
}
