import { pick } from '../../review/mutate.ts';
import type { Dump } from './dump.ts';

export type Random = () => number;

/** A dump with one mistake, or with a change that no packet shows. */
export interface Mutant {
  /** What was changed: a line before and after. */
  readonly what: string;
  readonly dump: Dump;
}

/** @returns undefined where this kind of change does not apply to the dump */
export type Change = (dump: Dump, random: Random) => Mutant | undefined;

type Part = 'ipv4' | 'ipv6' | 'tables';

/** One random place of a text where a pattern matches. */
interface Place {
  readonly part: Part;
  readonly at: number;
  readonly found: RegExpExecArray;
}

/**
 * Replaces one match of a pattern.
 * @param replace returns the text in its place; undefined, or the same text: this match is left alone
 */
export function replacing(
  parts: readonly Part[],
  pattern: RegExp,
  replace: (found: RegExpExecArray, random: Random, text: string) => string | undefined,
): Change {
  return (dump, random) => {
    const places = parts.flatMap((part): Place[] =>
      [...dump[part].matchAll(pattern)].map((found) => ({ part, at: found.index, found })),
    );
    for (let n = 0; n < triesMax && places.length > 0; n++) {
      const { part, at, found } = pick(places, random);
      const text = dump[part];
      const put = replace(found, random, text);
      if (put === undefined || put === found[0]) continue;
      const after = text.slice(0, at) + put + text.slice(at + found[0].length);
      return { what: `${part}: ${lineAt(text, at)} → ${lineAt(after, at)}`, dump: { ...dump, [part]: after } };
    }
    return undefined;
  };
}

const triesMax = 20;

const lineAt = (text: string, at: number): string => {
  const start = text.lastIndexOf('\n', at - 1) + 1;
  const end = text.indexOf('\n', at);
  return text.slice(start, end < 0 ? undefined : end).trim() || '(nothing)';
};

export const rules: readonly Part[] = ['ipv4', 'ipv6'];
export const tables: readonly Part[] = ['tables'];

/** Another address of the same network. */
export function otherAddress(address: string, random: Random): string {
  const six = address.includes(':');
  const end = six ? address.lastIndexOf(':') : address.lastIndexOf('.');
  const last = address.slice(end + 1);
  const number = six ? Number.parseInt(last, 16) : Number(last);
  const next = (number + 1 + Math.floor(random() * 7)) % 250;
  return address.slice(0, end + 1) + (six ? next.toString(16) : String(next));
}

export const otherPort = (port: string, random: Random): string => String(Number(port) + 1 + Math.floor(random() * 5));

export const otherProtocol = (protocol: string, random: Random): string =>
  pick(
    ['tcp', 'udp', 'sctp'].filter((one) => one !== protocol),
    random,
  );

/** Another one of the texts that a pattern finds; undefined: there is none. */
export function another(own: string, pattern: RegExp, text: string, random: Random): string | undefined {
  const others = [...new Set([...text.matchAll(pattern)].map(([whole]) => whole))].filter((one) => one !== own);
  return others.length === 0 ? undefined : pick(others, random);
}

/** A place where a Service answers. */
export interface Frontend {
  readonly address: string;
  readonly protocol: string;
  readonly port: string;
}

/** The frontends with an address that a dump names. */
export function frontendsIn({ ipv4, ipv6, tables: text }: Dump): readonly Frontend[] {
  const ofRules = /-d ([0-9a-f.:]+)\/(?:32|128) -p (\w+) .*--dport (\d+) /g;
  const ofTables = /([0-9a-f:.]{4,}) \. (tcp|udp|sctp) \. (\d+)(?: comment "[^"]*")? : /g;
  const found = [...`${ipv4}\n${ipv6}`.matchAll(ofRules), ...text.matchAll(ofTables)];
  return found
    .map(([, address = '', protocol = '', port = '']) => ({ address, protocol, port }))
    .filter(({ address }) => address !== '0.0.0.0' && address !== '::');
}
