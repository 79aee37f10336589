import { z } from "zod";
import type { CloudflareApi } from "../cloudflare-api.ts";
import type { Settings } from "../settings.ts";

/**
 * Lists the addresses of a Worker: first its custom domains, then its address on workers.dev.
 *
 * @throws an Error if the Worker has no address.
 */
export async function findAddresses(
  api: CloudflareApi,
  { env, worker }: Pick<Settings, "env" | "worker">,
): Promise<readonly [string, ...string[]]> {
  const domains = await listDomains(api, `service=${worker}`);
  const own = `${api.account}/workers/scripts/${worker}/subdomain`;
  const { enabled } = await api.call(own, z.object({ enabled: z.boolean() }));
  const addresses = domains
    .filter(({ service }) => service === worker)
    .map(({ hostname }) => `https://${hostname}`);
  if (enabled) {
    const schema = z.object({ subdomain: z.string() });
    const { subdomain } = await api.call(`${api.account}/workers/subdomain`, schema);
    addresses.push(`https://${worker}.${subdomain}.workers.dev`);
  }
  const [first, ...others] = addresses;
  if (first !== undefined) return [first, ...others];
  throw new Error(
    `${worker} has no address, so a version cannot be tried. Set workers_dev in wrangler.toml, and ` +
      `then run: npx wrangler triggers deploy --env ${env}`,
  );
}

/** Lists domains. Cloudflare may ignore the query, so callers filter the domains again. */
function listDomains(api: CloudflareApi, query: string) {
  const schema = z.array(z.object({ hostname: z.string(), service: z.string() }));
  return api.call(`${api.account}/workers/domains?${query}`, schema);
}

/** @throws an Error if another Worker or a DNS record uses a hostname, or no zone contains it. */
export async function checkHostname(api: CloudflareApi, hostname: string, worker: string) {
  const domains = await listDomains(api, `hostname=${hostname}`);
  const service = domains.find((domain) => domain.hostname === hostname)?.service;
  if (service === worker) return;
  if (service !== undefined) {
    throw new Error(`${hostname} is the address of the Worker ${service}. Choose another name`);
  }
  const zone = await findZone(api, hostname);
  const schema = z.array(z.object({ type: z.string(), content: z.optional(z.string()) }));
  const records = await api.call(
    `/zones/${zone}/dns_records?name=${encodeURIComponent(hostname)}`,
    schema,
  );
  const taken = records.filter(({ type }) => ["A", "AAAA", "CNAME"].includes(type));
  if (taken.length === 0) return;
  const listed = taken.map(({ type, content = "" }) => `${type} ${content}`.trim()).join(", ");
  throw new Error(
    `${hostname} is in use (${listed}). Choose another name, or delete these records`,
  );
}

async function findZone(api: CloudflareApi, hostname: string): Promise<string> {
  const labels = hostname.split(".");
  for (let first = 0; first < labels.length - 1; first += 1) {
    const name = labels.slice(first).join(".");
    const schema = z.array(z.object({ id: z.string(), name: z.string() }));
    const zones = await api.call(`/zones?name=${encodeURIComponent(name)}`, schema);
    const zone = zones.find((candidate) => candidate.name === name);
    if (zone !== undefined) return zone.id;
  }
  throw new Error(
    `no zone of this login has ${hostname}. Add the zone to Cloudflare, or give the token the ` +
      "permissions Zone: Read and DNS: Read",
  );
}

/** Makes a hostname an address of a Worker. Cloudflare refuses a hostname that is in use. */
export async function attachDomain(api: CloudflareApi, hostname: string, worker: string) {
  await api.call(`${api.account}/workers/domains`, z.unknown(), {
    method: "PUT",
    body: { hostname, service: worker },
  });
}
