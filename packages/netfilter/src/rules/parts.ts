import type { Family } from '../family.ts';
import { parseAddress } from './address.ts';
import { parseCidr } from './cidr.ts';
import { certain, type ConntrackState, conntrackStates } from './rule.ts';

/** The kernel's maximum for chain names (`XT_EXTENSION_MAXNAMELEN` without the terminator). */
const chainBytesMax = 28;

const chainForm = /^[A-Z0-9][A-Za-z0-9-]{0,27}$/;
const interfaceForm = /^[A-Za-z0-9][A-Za-z0-9._-]{0,14}$/;
const interfacePrefixForm = /^[A-Za-z0-9][A-Za-z0-9._-]{0,13}\+$/;
const commentBytesMax = 255;

const taggedForm = /^SLU(?:ICE)?-[A-Z0-9-]{1,21}\.[0-9a-z]{2}$/;

/** Whether layout `tree` makes tagged chains of this name. */
export function isTaggedChain(text: string): boolean {
  return text.length <= chainBytesMax && taggedForm.test(text);
}

export function isChainName(text: string): boolean {
  return chainForm.test(text);
}

/**
 * Whether a rule may jump to a chain of this name. Names without a dash are refused: these may be targets of iptables (`LOG`, `SNAT`,
 * `TEE`).
 */
export function isJumpTarget(text: string): boolean {
  return chainForm.test(text) && text.includes('-');
}

/** Whether a text is the name of an interface, or a prefix of names (`cali+`). `+` alone is refused: it matches all. */
export function isInterface(text: string): boolean {
  return interfaceForm.test(text) || interfacePrefixForm.test(text);
}

/** Whether a text may be a comment. Old versions of iptables-restore read one that starts with a dash as an option. */
export function isComment(text: string): boolean {
  return text.length <= commentBytesMax && !text.startsWith('-');
}

/** An address or a network as a canonical CIDR with its family. */
export function readNetwork(text: string): { readonly family: Family; readonly text: string } | undefined {
  if (text.includes('/')) return parseCidr(text);
  const address = parseAddress(text);
  return address && { family: address.family, text: `${address.text}/${address.family === 'ipv4' ? 32 : 128}` };
}

/** `10.244.1.5:8080` or `[fd00::5]:8080`: one address, one port. Ranges and missing ports are refused. */
export function readEndpoint(
  text: string,
): { readonly family: Family; readonly address: string; readonly port: number } | undefined {
  const colon = text.lastIndexOf(':');
  const host = text.slice(0, Math.max(colon, 0));
  const bracketed = host.startsWith('[') && host.endsWith(']');
  const address = parseAddress(bracketed ? host.slice(1, -1) : host);
  const port = readNumber(text.slice(colon + 1), 1, 65_535);
  if (!address || port === undefined || bracketed !== (address.family === 'ipv6')) return undefined;
  return { family: address.family, address: address.text, port };
}

/** A whole number in decimal without leading zeros. */
export function readNumber(text: string, min: number, max: number): number | undefined {
  const number = /^(?:0|[1-9][0-9]{0,9})$/.test(text) ? Number(text) : Number.NaN;
  return number >= min && number <= max ? number : undefined;
}

/** `8080:8095`, the first less than the last. */
export function readPorts(text: string): readonly [number, number] | undefined {
  const [first = '', last = '', ...rest] = text.split(':');
  const low = readNumber(first, 0, 65_535);
  const high = readNumber(last, 0, 65_535);
  return low === undefined || high === undefined || low >= high || rest.length > 0 ? undefined : [low, high];
}

/** Whether a text is the name of a switch set of layout `tree`. */
export function isSwitch(text: string): boolean {
  return /^SLUICE-[A-Z0-9]{1,8}$/.test(text);
}

/** 32 bits in hexadecimal: `0x4000`, or `0x00004000` as kube-proxy writes it. */
export function readBits(text: string): number | undefined {
  return /^0x[0-9a-fA-F]{1,8}$/.test(text) ? Number(text) : undefined;
}

/** `0x4000/0x4000`; the default mask has all bits. */
export function readMark(text: string): { readonly value: number; readonly mask: number } | undefined {
  const [first = '', second = '0xffffffff', ...rest] = text.split('/');
  const value = readBits(first);
  const mask = readBits(second);
  return value === undefined || mask === undefined || rest.length > 0 ? undefined : { value, mask };
}

/** `RELATED,ESTABLISHED` in the kernel's order, or undefined when a state is unknown or named twice. */
export function readStates(text: string): readonly ConntrackState[] | undefined {
  const named = text.split(',');
  const states = conntrackStates.filter((state) => named.includes(state));
  return states.length === named.length ? states : undefined;
}

/** A probability in the kernel's form, `lround(2^31 × p)`: 0.3333333333 and 0.33333333349 are equal. */
export function readChance(text: string): number | undefined {
  return /^(?:0\.[0-9]{1,12}|1\.0{1,12})$/.test(text) ? Math.round(Number(text) * certain) : undefined;
}

/** As iptables-save prints it (`%.11f`): half-way values go to the even digit, which `toFixed` does not do. */
export function printChance(chance: number): string {
  const probability = chance / certain;
  const rounded = probability.toFixed(11);
  const halfway = chance % 0x100000 === 0x80000;
  if (!halfway || Number(rounded.at(-1)) % 2 === 0) return rounded;
  return probability.toFixed(12).slice(0, -1);
}
