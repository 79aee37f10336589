import type { ExactReader } from "./facts.ts";

/** The placeholder in samples that the page replaces by the reader's key. */
export const KEY = "YOUR_API_KEY";

/** The placeholder in samples that the page replaces by the address of the service. */
export const ORIGIN = "SERVICE_ORIGIN";

/** The name of the TypeScript client's package. */
export const CLIENT = "store-orders-client";

/** A piece of code in one language. */
export interface Sample {
  readonly language: string;
  /** The name of the language in the highlighter. */
  readonly syntax: "bash" | "ts" | "js" | "py" | "go";
  readonly code: string;
}

const GO_IMPORTS = `package main

import (`;

/** Returns one sample per language. Each sample lists the orders and keeps every int64 exact. */
export function listSamples(path: string, readers: readonly ExactReader[]): readonly Sample[] {
  return [
    {
      language: "curl",
      syntax: "bash",
      code: `curl -i ${ORIGIN}${path} \\
  -H "Authorization: Bearer ${KEY}"`,
    },
    {
      language: "TypeScript",
      syntax: "ts",
      code: `${clientLines()}
for await (const order of client.listOrders()) {
  console.log(order.id, order.quantity); // bigints, exact
}`,
    },
    {
      language: "JavaScript",
      syntax: "js",
      code: `const response = await fetch("${ORIGIN}${path}", {
  headers: { Authorization: "Bearer ${KEY}" },
});
const text = await response.text();
if (!response.ok) throw new Error(text);

${linesOf(readers, "JavaScript")}
for (const order of orders) console.log(order.id, order.quantity);`,
    },
    {
      language: "Python",
      syntax: "py",
      code: `import json
from urllib.request import Request, urlopen

request = Request("${ORIGIN}${path}")
request.add_header("Authorization", "Bearer ${KEY}")
with urlopen(request) as response:
    orders = json.load(response)

for order in orders:
    print(order["id"], order.get("quantity"))`,
    },
    {
      language: "Go",
      syntax: "go",
      code: `${GO_IMPORTS}
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"time"
)

${typeOf(linesOf(readers, "Go"))}

func main() {
	request, err := http.NewRequest("GET", "${ORIGIN}${path}", nil)
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
	if response.StatusCode != http.StatusOK {
		log.Fatal(string(text))
	}
	var orders []Order
	if err := json.Unmarshal(text, &orders); err != nil {
		log.Fatal(err)
	}
	for _, order := range orders {
		fmt.Println(order.ID)
	}
}`,
    },
  ];
}

/** Returns one sample per language. Each sample cancels an order. */
export function cancelSamples(path: string, orderId: string): readonly Sample[] {
  const url = `${ORIGIN}${path.replace("{orderId}", orderId)}`;
  return [
    {
      language: "curl",
      syntax: "bash",
      code: `curl -i -X DELETE ${url} \\
  -H "Authorization: Bearer ${KEY}"`,
    },
    {
      language: "TypeScript",
      syntax: "ts",
      code: `${clientLines()}
console.log(await client.cancelOrder(${orderId}n)); // "cancelled"`,
    },
    {
      language: "JavaScript",
      syntax: "js",
      code: `const orderId = ${orderId}n; // a BigInt or a string: a number may be rounded
const response = await fetch(\`${ORIGIN}${path.replace("{orderId}", "${orderId}")}\`, {
  method: "DELETE",
  headers: { Authorization: "Bearer ${KEY}" },
});
if (!response.ok) throw new Error(await response.text());
console.log(response.status); // 204`,
    },
    {
      language: "Python",
      syntax: "py",
      code: `from urllib.error import HTTPError
from urllib.request import Request, urlopen

order_id = ${orderId}
request = Request(f"${ORIGIN}${path.replace("{orderId}", "{order_id}")}", method="DELETE")
request.add_header("Authorization", "Bearer ${KEY}")
try:
    with urlopen(request) as response:
        print(response.status)  # 204
except HTTPError as error:
    raise SystemExit(error.read().decode())`,
    },
    {
      language: "Go",
      syntax: "go",
      code: `${GO_IMPORTS}
	"fmt"
	"io"
	"log"
	"net/http"
)

func main() {
	var orderID int64 = ${orderId}
	url := fmt.Sprintf("${ORIGIN}${path.replace("{orderId}", "%d")}", orderID)
	request, err := http.NewRequest("DELETE", url, nil)
	if err != nil {
		log.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer ${KEY}")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusNoContent {
		text, _ := io.ReadAll(response.Body)
		log.Fatal(string(text))
	}
	fmt.Println(response.StatusCode) // 204
}`,
    },
  ];
}

function clientLines(): string {
  return `import { createClient } from "${CLIENT}";

const client = createClient({
  baseUrl: "${ORIGIN}",
  apiKey: "${KEY}",
});`;
}

function linesOf(readers: readonly ExactReader[], language: string): string {
  const reader = readers.find((one) => one.language === language);
  if (reader === undefined) throw new Error(`There are no exact lines for ${language}.`);
  return reader.lines;
}

/**
 * Returns the type declaration at the beginning of `lines`, without the lines that use the type.
 */
function typeOf(lines: string): string {
  return lines.slice(0, lines.indexOf("\n}") + 2);
}
