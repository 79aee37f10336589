import type { ShjLanguage } from "@speed-highlight/core";
import { EXACT_READERS } from "../../openapi/exact-integers.ts";

/** The placeholder in samples that the page replaces by the reader's key. */
export const KEY = "YOUR_API_KEY";

/** The placeholder in samples that the page replaces by the address of the service. */
export const ORIGIN = "SERVICE_ORIGIN";

export const CLIENT = "store-orders-client";

/** The highlighter's names of languages. Languages not listed, such as C#, use the name `java`. */
export const SYNTAX: Readonly<Record<string, ShjLanguage>> = {
  curl: "bash",
  TypeScript: "ts",
  JavaScript: "js",
  Python: "py",
  Go: "go",
};

export interface Sample {
  readonly language: string;
  /** Default: the highlighter's name of the language. */
  readonly syntax?: ShjLanguage;
  readonly code: string;
}

/** Returns one sample per language. Each sample lists the orders and keeps every int64 exact. */
export function listSamples(path: string): Sample[] {
  const goLines = linesOf("Go");
  return samplesOf({
    curl: `curl -i ${ORIGIN}${path} \\
  -H "Authorization: Bearer ${KEY}"`,
    TypeScript: `${CLIENT_LINES}
for await (const order of client.listOrders()) {
  console.log(order.id, order.quantity); // bigints, exact
}`,
    JavaScript: `const response = await fetch("${ORIGIN}${path}", {
  headers: { Authorization: "Bearer ${KEY}" },
});
const text = await response.text();
if (!response.ok) throw new Error(text);

${linesOf("JavaScript")}
for (const order of orders) console.log(order.id, order.quantity);`,
    Python: `import json
${pythonLines(`Request("${ORIGIN}${path}")`, "orders = json.load(response)")}

for order in orders:
    print(order["id"], order.get("quantity"))`,
    Go: goProgram({
      imports: ["encoding/json", "fmt", "io", "log", "net/http", "time"],
      // `goLines` begins with the order type, which ends at the first line that starts with `}`.
      declaration: `${goLines.slice(0, goLines.indexOf("\n}") + 2)}\n\n`,
      request: `"GET", "${ORIGIN}${path}"`,
      use: `	var orders []Order
	if err := json.Unmarshal(text, &orders); err != nil {
		log.Fatal(err)
	}
	for _, order := range orders {
		fmt.Println(order.ID)
	}`,
    }),
  });
}

/** Returns one sample per language. Each sample cancels an order. */
export function cancelSamples(path: string, orderId: string): Sample[] {
  const url = (id: string) => `${ORIGIN}${path.replace("{orderId}", id)}`;
  return samplesOf({
    curl: `curl -i -X DELETE ${url(orderId)} \\
  -H "Authorization: Bearer ${KEY}"`,
    TypeScript: `${CLIENT_LINES}
console.log(await client.cancelOrder(${orderId}n)); // "cancelled"`,
    JavaScript: `const orderId = ${orderId}n; // a BigInt or a string: a number may be rounded
const response = await fetch(\`${url("${orderId}")}\`, {
  method: "DELETE",
  headers: { Authorization: "Bearer ${KEY}" },
});
if (!response.ok) throw new Error(await response.text());
console.log(response.status); // 204`,
    Python: pythonLines(
      `Request("${url(orderId)}", method="DELETE")`,
      "print(response.status)  # 204",
    ),
    Go: goProgram({
      imports: ["fmt", "io", "log", "net/http"],
      declaration: `const orderID int64 = ${orderId}\n\n`,
      request: `"DELETE", fmt.Sprintf("${url("%d")}", orderID)`,
      use: "	fmt.Println(response.StatusCode) // 204",
    }),
  });
}

function samplesOf(codes: Readonly<Record<string, string>>): Sample[] {
  return Object.entries(codes).map(([language, code]) => ({ language, code }));
}

const CLIENT_LINES = `import { createClient } from "${CLIENT}";

const client = createClient({
  baseUrl: "${ORIGIN}",
  apiKey: "${KEY}",
});`;

function pythonLines(request: string, use: string): string {
  return `from urllib.error import HTTPError
from urllib.request import Request, urlopen

request = ${request}
request.add_header("Authorization", "Bearer ${KEY}")
try:
    with urlopen(request) as response:
        ${use}
except HTTPError as error:
    raise SystemExit(error.read().decode())`;
}

/** @param parts.use the lines that use the response and its body `text`. */
function goProgram(
  parts: Readonly<Record<"declaration" | "request" | "use", string>> & { imports: string[] },
): string {
  const { imports, declaration, request, use } = parts;
  return `package main

import (
${imports.map((name) => `	"${name}"`).join("\n")}
)

${declaration}func main() {
	request, err := http.NewRequest(${request}, nil)
	if err != nil {
		log.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer ${KEY}")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		log.Fatal(err)
	}
	if response.StatusCode >= 400 {
		log.Fatal(string(text))
	}
${use}
}`;
}

function linesOf(language: "Go" | "JavaScript"): string {
  return EXACT_READERS.find((reader) => reader.language === language)?.lines ?? "";
}
