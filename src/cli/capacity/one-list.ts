import type { Basis } from "./basis.ts";
import { LIST_PAGE_ORDERS } from "./operations.ts";

/** One list of all orders. */
export interface OneList {
  /** As JSON text, before the network compresses it. */
  readonly bytes: number;
  readonly pages: number;
  /** How full the pages are, on average: from 0 to 1. */
  readonly pageFill: number;
  /** From the database's first page to its last. */
  readonly readSeconds: number;
  /** Until a client has taken it in, however fast it is read. */
  readonly clientSeconds: number;
}

/** What a list of that many orders is like. */
export function oneList(orders: number, { measured, assumptions: { network } }: Basis): OneList {
  const bytes = orders * measured.listedOrderBytes;
  const pages = Math.max(1, Math.ceil(orders / LIST_PAGE_ORDERS));
  const pageFill = orders / (pages * LIST_PAGE_ORDERS);
  const pageMs = measured.pageReadMs * pageFill + network.databaseRoundTripMs;
  return {
    bytes,
    pages,
    pageFill,
    readSeconds: (pages * pageMs) / 1_000,
    clientSeconds: (bytes * 8) / (network.clientMbits * 1e6),
  };
}
