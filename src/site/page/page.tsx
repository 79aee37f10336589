import { html } from "hono/html";
import { Code, HttpAnswer, LOCAL_ORIGIN, Samples, Tabs } from "./code.tsx";
import { ConsoleSection, KeyField } from "./console.tsx";
import type { PageFacts } from "./facts.ts";
import { LimitsSection } from "./limits.tsx";
import { Fields, OperationSection } from "./operation.tsx";
import { Inline } from "./prose.tsx";
import { readReference, type Operation, type Reference } from "./reference.ts";
import { cancelSamples, CLIENT, KEY, listSamples, ORIGIN, type Sample } from "./samples.ts";
import { ErrorTable, HeaderTable } from "./tables.tsx";

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

const INSTALL = `npm install ./${CLIENT}-1.0.0.tgz`;

/** The properties that all sections of the page share. */
interface PageProps {
  readonly facts: PageFacts;
  readonly reference: Reference;
  readonly list: Operation;
  readonly cancel: Operation;
  readonly listing: readonly Sample[];
}

/** Writes the reference page as HTML. */
export async function renderPage(facts: PageFacts): Promise<string> {
  const reference = readReference(facts.document);
  const list = operation(reference, "listOrders");
  const cancel = operation(reference, "cancelOrder");
  const listing = listSamples(`${reference.basePath}${list.path}`, facts.exactReaders);
  const props = { facts, reference, list, cancel, listing };
  return String(await html`<!doctype html>${<Page {...props} />}`);
}

function operation({ operations }: Reference, id: string): Operation {
  const found = operations.find((one) => one.id === id);
  if (found === undefined) throw new Error(`The document has no operation ${id}.`);
  return found;
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
          <Integers {...props} />
          <Clients {...props} />
          <ConsoleSection reference={reference} graceMs={props.facts.bans.graceMs} />
          <LimitsSection facts={props.facts} reference={reference} />
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
        <div class="headline">
          <h1 id="intro-title">List the orders of a store. Cancel what has not shipped.</h1>
          <p class="lede">
            Two operations over HTTP, one API key, exact 64-bit integers, and limits that every
            answer shows.
          </p>
        </div>
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
              service is not at <code>{reference.origin ?? LOCAL_ORIGIN}</code>.
            </span>
            <form id="first-call" class="control needs-script">
              <KeyField id="first-key" />
              <button type="submit" class="primary">
                List orders
              </button>
            </form>
          </li>
          <li>
            <b>Send the request.</b> Copy a sample, or let the <a href="#try">console</a> send it.
            The base address is{" "}
            <code>
              <span data-origin>{reference.origin ?? LOCAL_ORIGIN}</span>
              {reference.basePath}
            </code>
            .
          </li>
        </ol>
      </div>
      <div class="aside">
        <Samples name="first" label="First call" samples={listing} origin={reference.origin} />
        {answer?.examples.map((example) => (
          <HttpAnswer
            answer={answer}
            example={example}
            hasHeader={(name) =>
              reference.headers.some((header) => header.name === name && header.required)
            }
          />
        ))}
      </div>
    </section>
  );
}

/** The operator's address, after the text `before`; nothing if the operator has set no address. */
function Contact(props: { readonly reference: Reference; readonly before: string }) {
  const { email, url } = props.reference.contact;
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
    <section id="authentication" class="split" aria-labelledby="authentication-title">
      <div class="text">
        <h2 id="authentication-title">Authentication</h2>
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
      </div>
      <div class="aside">
        <Code
          code={`Authorization: Bearer ${KEY}`}
          syntax="http"
          label="Header with the key"
          copy
        />
        {answer?.examples.map((example) => (
          <HttpAnswer
            answer={answer}
            example={example}
            hasHeader={(name) => !reference.commonHeaders.has(name)}
          />
        ))}
      </div>
    </section>
  );
}

function Operations({ facts, reference, list, cancel, listing }: PageProps) {
  const path = `${reference.basePath}${cancel.path}`;
  const orderId = cancel.parameters.find(({ name }) => name === "orderId")?.example ?? "1001";
  return (
    <>
      <OperationSection
        reference={reference}
        operation={list}
        samples={listing}
        warning={
          <p class="warning">
            <Inline text={facts.roundingWarning} /> <a href="#int64">Read integers exactly.</a>
          </p>
        }
      >
        <h3>An order</h3>
        <Fields prefix="Order" fields={reference.orderFields} />
      </OperationSection>
      <OperationSection
        reference={reference}
        operation={cancel}
        samples={cancelSamples(path, orderId)}
        warning={
          <p class="warning">
            Send exactly the digits of the id in the list. A rounded id can cancel another order.{" "}
            <a href="#int64">Read integers exactly.</a>
          </p>
        }
      />
    </>
  );
}

function Integers({ facts }: PageProps) {
  return (
    <section id="int64" class="split" aria-labelledby="int64-title">
      <div class="text">
        <h2 id="int64-title">Read integers exactly</h2>
        <p class="warning">
          <Inline text={facts.roundingWarning} />
        </p>
        <p>
          Identifiers and quantities are 64-bit integers, sent as JSON numbers with every digit. The
          lines of code for each language keep these integers exact.
        </p>
        <dl class="fields">
          {facts.exactReaders.map(({ language, note }) => (
            <div>
              <dt>{language}</dt>
              <dd>
                <Inline text={note} />
              </dd>
            </div>
          ))}
        </dl>
      </div>
      <div class="aside">
        <Tabs
          name="exact-language"
          label="Exact integers: language"
          tabs={facts.exactReaders.map(({ language, fence, lines }) => ({
            value: language,
            title: language,
            content: (
              <Code
                code={lines}
                syntax={syntaxOf(fence)}
                label={`Exact integers (${language})`}
                copy
              />
            ),
          }))}
        />
      </div>
    </section>
  );
}

function Clients({ facts, reference }: PageProps) {
  return (
    <section id="clients" class="split" aria-labelledby="clients-title">
      <div class="text">
        <h2 id="clients-title">Clients</h2>
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
          generated clients keep ids exact.
        </p>
        <p>
          <b>Language models.</b> <a href="/llms.txt">llms.txt</a> is this reference as plain text.
        </p>
      </div>
      <div class="aside">
        <Tabs
          name="client"
          label="Client"
          tabs={[
            {
              value: CLIENT,
              title: "Our client",
              content: <Code code={INSTALL} syntax="bash" label="Install the client" copy />,
            },
            {
              value: "generated",
              title: "openapi-typescript",
              content: facts.generatedClient.map(({ fence, code }, index) => (
                <Code
                  code={code.replaceAll(LOCAL_ORIGIN, ORIGIN)}
                  syntax={syntaxOf(fence)}
                  label={`Generated client, part ${index + 1}`}
                  origin={reference.origin}
                  copy
                />
              )),
            },
          ]}
        />
      </div>
    </section>
  );
}

/**
 * Returns the highlighter's language for a Markdown fence. Highlights C# as Java, because the
 * highlighter does not know C#.
 */
function syntaxOf(fence: string): Sample["syntax"] | "java" {
  switch (fence) {
    case "sh":
      return "bash";
    case "js":
    case "ts":
    case "go":
      return fence;
    case "python":
      return "py";
    default:
      return "java";
  }
}

function Tables({ reference }: { readonly reference: Reference }) {
  return (
    <>
      <section id="headers" class="wide" aria-labelledby="headers-title">
        <h2 id="headers-title">Headers of answers</h2>
        <HeaderTable reference={reference} />
      </section>
      <section id="errors" class="wide" aria-labelledby="errors-title">
        <h2 id="errors-title">Errors</h2>
        <p class="measure">
          Every error has the same body with exactly three fields. Programs decide by{" "}
          <code>code</code>, because the text of a message may change.
          <Contact reference={reference} before=" Report a 500 with its X-Request-Id: " />
        </p>
        <Fields prefix="Error" fields={reference.errorFields} />
        <ErrorTable reference={reference} />
      </section>
    </>
  );
}

function Versions() {
  return (
    <section id="versions" class="wide" aria-labelledby="versions-title">
      <h2 id="versions-title">Versions</h2>
      <p class="measure">
        The version of the API is in the address. Within a version, nothing is removed, renamed or
        given another meaning. Filtering and pagination of the list will come with v2, at a new
        address. Before a version ends, its answers announce the end in the headers{" "}
        <code>Deprecation</code> and <code>Sunset</code>.
      </p>
    </section>
  );
}
