import { type Address, type Family, forbiddenAddress, parseAddress, parseCidr } from '@sluice/netfilter';
import type { Path } from '../model/kube.ts';
import { report, pathText, type FieldSpot } from './fields.ts';
import { quote } from './text.ts';

/** The family of a valid address or CIDR. */
export function familyOf(canonical: string): Family {
  return canonical.includes(':') ? 'ipv6' : 'ipv4';
}

/** `IPv4`: the spelling of a family in Kubernetes and in messages. */
export const familyWord = { ipv4: 'IPv4', ipv6: 'IPv6' } as const satisfies Record<Family, string>;

/**
 * An address in canonical form. Another form is a warning, as in the API server; one that parsers read as different addresses is an
 * error.
 */
export function checkAddress(spot: FieldSpot, tail: Path, text: string): string | undefined {
  return parse(spot, tail, text)?.text;
}

/** An address of traffic: `checkAddress`, and not in a range that is local to each node. */
export function checkRoutable(spot: FieldSpot, tail: Path, text: string): string | undefined {
  const address = parse(spot, tail, text);
  const why = address && forbiddenAddress(address);
  if (why === undefined) return address?.text;
  report(spot, tail, {
    code: 'ADDRESS_FORBIDDEN',
    message: `Cannot route to ${quote(text)} in ${pathText(spot, tail)}: ${why}`,
    hint: "Use the address of a pod or a host; these ranges lead to every node's own daemons",
  });
  return undefined;
}

function parse(spot: FieldSpot, tail: Path, text: string): Address | undefined {
  const address = parseAddress(text);
  if (address === undefined) {
    report(spot, tail, {
      code: 'ADDRESS_INVALID',
      message: `Cannot read ${pathText(spot, tail)}: ${quote(text)} is not a valid IP address`,
      hint: 'Write four decimal numbers without leading zeros, or an IPv6 address without zone, prefix or brackets',
    });
    return undefined;
  }
  if (address.text !== text) respelled(spot, tail, text, address.text);
  return address;
}

function respelled(spot: FieldSpot, tail: Path, text: string, canonical: string): void {
  report(spot, tail, {
    code: 'ADDRESS_INVALID',
    level: 'warning',
    message: `Cannot keep ${quote(text)} in ${pathText(spot, tail)}: rules have the canonical form ${canonical}`,
    hint: `Write ${canonical}`,
  });
}

/** A network in canonical form; host bits are a warning, and cleared as iptables clears them. */
export function checkCidr(spot: FieldSpot, tail: Path, text: string): string | undefined {
  const cidr = parseCidr(text);
  if (!cidr) {
    report(spot, tail, {
      code: 'ADDRESS_INVALID',
      message: `Cannot read ${pathText(spot, tail)}: ${quote(text)} is not a valid CIDR`,
      hint: 'Write an address and a prefix, such as 198.51.100.0/24',
    });
    return undefined;
  }
  if (cidr.text !== text) respelled(spot, tail, text, cidr.text);
  return cidr.text;
}
