/** A warning about integers above 2^53 in JavaScript, in Markdown. */
export const ROUNDING_WARNING =
  "`JSON.parse` rounds integers above 2^53, without an error. The ids `9007199254740993` and `9007199254740992` become one number, so cancelling one order can cancel the other.";

/** A warning about `jq`, in Markdown. */
export const JQ_WARNING =
  "`jq` 1.6, which Debian 12 has, rounds integers above 2^53 too: `curl … | jq … | xargs …` would cancel another order than the one in the list. Use `jq` 1.7 or newer, and do not calculate with ids.";

/**
 * Code in several languages that parses the response body `text` into `orders` without rounding
 * integers. `note` is Markdown. The tests run the code in JavaScript, TypeScript and Python.
 */
export const EXACT_READERS = [
  {
    language: "JavaScript",
    fence: "js",
    note: "Before these versions, the lines throw a `TypeError`.",
    lines: `// Needs Node 22, Chrome 114, Firefox 135 or Safari 18.4.
const orders = JSON.parse(text, (key, value, { source }) =>
  ["id", "petId", "quantity"].includes(key) ? BigInt(source) : value,
);`,
  },
  {
    language: "TypeScript",
    fence: "ts",
    note: "The types of `JSON.parse` lack the third parameter, so it is optional here.",
    lines: `type Order = { id: bigint; petId?: bigint; quantity?: bigint } & {
  shipDate?: string;
  complete?: boolean;
};

// Needs Node 22, Chrome 114, Firefox 135 or Safari 18.4.
const exact = (key: string, value: unknown, context?: { source: string }) =>
  ["id", "petId", "quantity"].includes(key) ? BigInt(context!.source) : value;

const orders: Order[] = JSON.parse(text, exact);`,
  },
  {
    language: "Python",
    fence: "python",
    note: "Python reads every integer exactly. So does `response.json()`.",
    lines: `import json

orders = json.loads(text)`,
  },
  {
    language: "Go",
    fence: "go",
    note: "Decode into a struct with `int64`. An `any` would hold a `float64`, which rounds.",
    lines: `type Order struct {
	ID       int64      \`json:"id"\`
	PetID    *int64     \`json:"petId"\`
	Quantity *int64     \`json:"quantity"\`
	ShipDate *time.Time \`json:"shipDate"\`
	Complete *bool      \`json:"complete"\`
}

var orders []Order
err := json.Unmarshal(text, &orders)`,
  },
  {
    language: "Java",
    fence: "java",
    note: "Jackson reads into a record with `long`.",
    lines: `@JsonIgnoreProperties(ignoreUnknown = true)
record Order(long id, Long petId, Long quantity, String shipDate, Boolean complete) {}

Order[] orders = new ObjectMapper().readValue(text, Order[].class);`,
  },
  {
    language: "C#",
    fence: "csharp",
    note: "System.Text.Json reads into a record with `long`.",
    lines: `record Order(long Id, long? PetId, long? Quantity, DateTimeOffset? ShipDate, bool? Complete);

var options = new JsonSerializerOptions(JsonSerializerDefaults.Web);
var orders = JsonSerializer.Deserialize<Order[]>(text, options);`,
  },
] as const;
