import { hash } from 'node:crypto';
import { parseAddress, parseCidr } from '@sluice/netfilter';
import type { SluiceConfig } from '../model/config.ts';
import type { PerFamily } from '../model/model.ts';

/** A range of addresses or ports for allocation. */
export interface NumberRange<T> {
  /** The text in the config. */
  readonly text: string;
  /** The number of values. */
  readonly size: bigint;
  /**
   * The number of values at the start that are allocated last: the API server reserves them for addresses that are chosen by hand
   * (KEP-3070 for ClusterIPs, KEP-3668 for node ports).
   */
  readonly band: bigint;
  /** The number at `offset`, counted from 0. */
  at(offset: bigint): T;
}

/** The ranges of a cluster. A family without a service CIDR has none. */
export interface Ranges {
  /** In the order of use. */
  readonly addresses: PerFamily<readonly NumberRange<string>[]>;
  readonly ports: NumberRange<number>;
}

/** The settings of ranges in a config. */
export type RangeConfig = Pick<SluiceConfig, 'serviceCIDRs' | 'closedServiceCIDRs' | 'nodePortRange'>;

export function rangesOf({ serviceCIDRs, closedServiceCIDRs = [], nodePortRange }: RangeConfig): Ranges {
  const open = (cidrs: readonly string[] = []): readonly NumberRange<string>[] =>
    cidrs.filter((cidr) => !closedServiceCIDRs.includes(cidr)).map(addressRange);
  const addresses = { ipv4: open(serviceCIDRs.ipv4), ipv6: open(serviceCIDRs.ipv6) };
  return { addresses, ports: portRange(nodePortRange) };
}

/**
 * The ClusterIPs of a service CIDR by the API server's rules: without the network address, the IPv4 broadcast address, and the first
 * address, which is reserved for `default/kubernetes`.
 * @param cidr canonical, such as `10.96.0.0/12`
 */
export function addressRange(cidr: string): NumberRange<string> {
  const parsed = parseCidr(cidr);
  if (!parsed) throw new RangeError(`Cannot allocate from ${JSON.stringify(cidr)}: not a valid CIDR`);
  const bits = parsed.family === 'ipv4' ? 32 : 128;
  const all = 1n << BigInt(bits - parsed.prefix);
  const base = parsed.words.reduce((sum, word) => (sum << 16n) | BigInt(word), 0n);
  const unusable = parsed.family === 'ipv4' ? 3n : 2n;
  return {
    text: parsed.text,
    size: all > unusable ? all - unusable : 0n,
    band: bandOf(all, { least: 16n, step: 16n, most: 256n }),
    at: (offset) => printAddress(base + 2n + offset, bits / 16),
  };
}

/** The node ports `from` to `to`, both included. */
export function portRange(range: { readonly from: number; readonly to: number }): NumberRange<number> {
  const size = BigInt(Math.max(0, range.to - range.from + 1));
  return {
    text: `${range.from}-${range.to}`,
    size,
    band: bandOf(size, { least: 16n, step: 32n, most: 128n }),
    at: (offset) => range.from + Number(offset),
  };
}

/** The first number that `choose` finds in several ranges. */
export function chooseFrom<T>(
  ranges: readonly NumberRange<T>[],
  key: string,
  isFree: (candidate: T) => boolean,
): T | undefined {
  for (const range of ranges) {
    const chosen = choose(range, key, isFree);
    if (chosen !== undefined) return chosen;
  }
  return undefined;
}

/** `10.96.0.0/12 and 10.200.0.0/16`: ranges in a message. */
export function namesOf(ranges: readonly NumberRange<unknown>[]): string {
  return ranges.map(({ text }) => text).join(' and ');
}

/** kubernetes/kubernetes `calculateRangeOffset` of the ipallocator and of the portallocator. */
function bandOf(size: bigint, rule: { least: bigint; step: bigint; most: bigint }): bigint {
  if (size <= rule.least) return 0n;
  const share = size / rule.step;
  return share < rule.least ? rule.least : share > rule.most ? rule.most : share;
}

/** Attempts by hash before a linear search. */
const hashedChoices = 64;

/**
 * The first free number in an order derived from `key`: by hash, then in sequence from the first attempt. Two keys rarely have an attempt
 * in common, so two branches that add a Service each rarely allocate the same number.
 * @returns undefined when no number is free
 */
export function choose<T>(range: NumberRange<T>, key: string, isFree: (candidate: T) => boolean): T | undefined {
  const band = range.band < range.size ? range.band : 0n;
  const open = range.size - band;
  if (open <= 0n) return undefined;
  const first = hashOf(key, 0) % open;
  for (let attempt = 0; attempt < hashedChoices; attempt++) {
    const candidate = range.at(band + (attempt === 0 ? first : hashOf(key, attempt) % open));
    if (isFree(candidate)) return candidate;
  }
  for (let step = 1n; step < open; step++) {
    const candidate = range.at(band + ((first + step) % open));
    if (isFree(candidate)) return candidate;
  }
  for (let offset = 0n; offset < band; offset++) {
    const candidate = range.at(offset);
    if (isFree(candidate)) return candidate;
  }
  return undefined;
}

/** 128 bits: much larger than any range, so that remainders are uniform. */
function hashOf(key: string, attempt: number): bigint {
  return BigInt(`0x${hash('sha256', `${key}#${attempt}`, 'hex').slice(0, 32)}`);
}

function printAddress(value: bigint, words: number): string {
  if (words === 2) return [24n, 16n, 8n, 0n].map((shift) => (value >> shift) & 0xffn).join('.');
  const groups = Array.from({ length: 8 }, (_, index) => ((value >> BigInt(16 * (7 - index))) & 0xffffn).toString(16));
  const text = groups.join(':');
  return parseAddress(text)?.text ?? text;
}
