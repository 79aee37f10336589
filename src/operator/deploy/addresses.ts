import { z } from "zod";
import type { CloudflareApi } from "../cloudflare-api.ts";
import type { Settings } from "../settings.ts";

const domainsSchema = z.array(z.object({ hostname: z.string(), service: z.string() }));
const recordsSchema = z.array(z.object({ type: z.string(), content: z.optional(z.string()) }));
const zonesSchema = z.array(z.object({ id: z.string(), name: z.string() }));
const subdomainSchema = z.object({ subdomain: z.string() });
/** The state of a Worker's address on workers.dev. */
export const enabledSchema = z.object({ enabled: z.boolean() });

/**
 * Lists the addresses of a Worker: first its custom domains, then its address on workers.dev.
 *
 * @throws an Error if the Worker has no address.
 */
export async function findAddresses(
  api: CloudflareApi,
  { env, worker }: Pick<Settings, "env" | "worker">,
): Promise<readonly [string, ...string[]]> {
  const workers = `${api.account}/workers`;
  const domains = await listDomains(api, `service=${worker}`);
  const { enabled } = await api.call(`${workers}/scripts/${worker}/subdomain`, enabledSchema);
  const addresses = domains
    .filter(({ service }) => service === worker)
    .map(({ hostname }) => `https://${hostname}`);
  if (enabled) {
    const { subdomain } = await api.call(`${workers}/subdomain`, subdomainSchema);
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
  return api.call(`${api.account}/workers/domains?${query}`, domainsSchema);
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
  const path = `/zones/${zone}/dns_records?name=${encodeURIComponent(hostname)}`;
  const records = await api.call(path, recordsSchema);
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
    const zones = await api.call(`/zones?name=${encodeURIComponent(name)}`, zonesSchema);
    const zone = zones.find((candidate) => candidate.name === name);
    if (zone !== undefined) return zone.id;
  }
  throw new Error(
    `no zone of this login has ${hostname}. Add the zone to Cloudflare, or give the token the ` +
      "permissions Zone: Read and DNS: Read",
  );
}
