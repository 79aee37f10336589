import type { ShjLanguage } from "@speed-highlight/core";
import { EXACT_READERS } from "../../openapi/exact-integers.ts";
import type { Operation } from "./reference.ts";

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

/** Returns one sample per language. @throws an Error if there are none for the operation. */
export function samplesOf({ operationId, method, path, parameters }: Operation): Sample[] {
  const uses = USES[operationId];
  if (uses === undefined) throw new Error(`There are no samples of ${operationId}.`);
  const id = String(parameters.find(({ name }) => name === "orderId")?.example);
  return Object.entries(LANGUAGES).map(([language, write]) => {
    const code = write(method, `${ORIGIN}${path}`, uses[language] ?? "");
    return { language, code: code.replace("{orderId}", id) };
  });
}

/** The lines that use the response to each operation, by language. */
const USES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  listOrders: {
    TypeScript: `for await (const order of client.listOrders()) {
  console.log(order.id, order.quantity); // bigints, exact
}`,
    JavaScript: `const text = await response.text();
${linesOf("JavaScript")}
for (const order of orders) console.log(order.id, order.quantity);`,
    Python: `for order in json.load(response):
            print(order["id"], order.get("quantity"))`,
    // The lines begin with the order type, which ends at the first line that starts with `}`.
    Go: `${linesOf("Go").replace(/\n\}[^]*/, "\n}")}
	var orders []Order
	if err := json.Unmarshal(text, &orders); err != nil {
		log.Fatal(err)
	}
	for _, order := range orders {
		fmt.Println(order.ID)
	}`,
  },
  cancelOrder: {
    TypeScript: 'console.log(await client.cancelOrder({orderId}n)); // "cancelled"',
    JavaScript: "console.log(response.status); // 204",
    Python: "print(response.status)  # 204",
    Go: "	fmt.Println(response.StatusCode) // 204",
  },
  getQuota: {
    TypeScript: `for (const { name, remaining, limit } of (await client.quota()).windows) {
  console.log(name, remaining, limit);
}`,
    JavaScript: `const { windows } = await response.json();
for (const { name, remaining, limit } of windows) console.log(name, remaining, limit);`,
    Python: `for window in json.load(response)["windows"]:
            print(window["name"], window["remaining"], window["limit"])`,
    Go: "	fmt.Println(string(text))",
  },
};

type Write = (method: string, url: string, use: string) => string;

const LANGUAGES: Readonly<Record<string, Write>> = {
  curl: (method, url) => `curl -i ${method === "GET" ? "" : `-X ${method} `}${url} \\
  -H "Authorization: Bearer ${KEY}"`,

  TypeScript: (_method, _url, use) => `import { createClient } from "${CLIENT}";

const client = createClient({
  baseUrl: "${ORIGIN}",
  apiKey: "${KEY}",
});
${use}`,

  JavaScript: (method, url, use) => `const response = await fetch("${url}", {${
    method === "GET" ? "" : `\n  method: "${method}",`
  }
  headers: { Authorization: "Bearer ${KEY}" },
});
if (!response.ok) throw new Error(await response.text());
${use}`,

  Python: (
    method,
    url,
    use,
  ) => `${use.includes("json.") ? "import json\n" : ""}from urllib.error import HTTPError
from urllib.request import Request, urlopen

request = Request("${url}"${method === "GET" ? "" : `, method="${method}"`})
request.add_header("Authorization", "Bearer ${KEY}")
try:
    with urlopen(request) as response:
        ${use}
except HTTPError as error:
    raise SystemExit(error.read().decode())`,

  Go: (method, url, use) => {
    const [, declaration = "", body = use] = /^(type [^]*?\n\}\n)([^]*)$/.exec(use) ?? [];
    const packages = ["encoding/json", "fmt", "io", "log", "net/http", "time"];
    const imports = packages.filter((name) => declaration || !/json|time/.test(name));
    return `package main

import (
${imports.map((name) => `	"${name}"`).join("\n")}
)

${declaration && `${declaration}\n`}func main() {
	request, err := http.NewRequest("${method}", "${url}", nil)
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
${body}
}`;
  },
};

function linesOf(language: "Go" | "JavaScript"): string {
  return EXACT_READERS.find((reader) => reader.language === language)?.lines ?? "";
}
