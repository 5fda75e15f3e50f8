import { lookup } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import { forbiddenEndpoint, parseAddress } from '@sluice/netfilter';

/** Why no connection is made to an address; undefined where one may be. */
export type AddressCheck = (address: string) => string | undefined;

/** A server named an address that it must not name. */
export class ForbiddenAddress extends Error {
  override readonly name = 'ForbiddenAddress';

  constructor(address: string, why: string) {
    super(`it leads to ${address}: ${why}`);
  }
}

/**
 * Why an address is none of another machine: loopback, link-local (where clouds have their metadata), unspecified, multicast, and IPv6
 * addresses that lead to such IPv4 addresses.
 * @param address numeric; with a zone (`fe80::1%eth0`) or without
 */
export function localKind(address: string): string | undefined {
  const [plain = ''] = address.split('%');
  return parseAddress(plain) === undefined ? 'it is not a plain IPv4 or IPv6 address' : forbiddenEndpoint(plain);
}

/** The address that a URL names, without brackets; undefined where it has a name. */
export function literalAddress({ hostname }: URL): string | undefined {
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  return isIP(host) === 0 ? undefined : host;
}

/** Resolves a name like Node, when a connection is made, and fails where one of its addresses is refused. */
export const checkedLookup =
  (refuses: AddressCheck): LookupFunction =>
  (hostname, options, done) => {
    lookup(hostname, { ...options, all: true }, (error, found) => {
      for (const { address } of error ? [] : found) {
        const why = refuses(address);
        if (why !== undefined) return done(new ForbiddenAddress(address, why), '');
      }
      const [first] = found ?? [];
      if (error || options.all) return done(error, found);
      done(null, first?.address ?? '', first?.family);
    });
  };

/** Whether a host is this machine. A name that resolves to loopback does not count, because DNS can change. */
export function isLoopback(hostname: string): boolean {
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  return host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'));
}
