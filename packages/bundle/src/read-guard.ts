import { parseCidr } from '@sluice/netfilter';
import type { Guard } from './rulefile.ts';

const guardForm = /^@(zone|node|local|nolocal|ip-in|ip-not-in)(!?=)(\S+)$/;
const subdomain = /^[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?$/;
const labelValue = /^[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/;

/** The valid values of lists: names as Kubernetes allows them, networks. */
const valueForms = {
  zone: (text: string) => labelValue.test(text),
  node: (text: string) => subdomain.test(text),
  'ip-in': (text: string) => parseCidr(text) !== undefined,
} as const;

/**
 * Reads a guard without its trailing space. An impossible value is refused: otherwise the rule would silently apply on no node, or
 * on all of them.
 * @returns the guard, or the error in words
 */
export function readGuard(text: string): Guard | string {
  const match = guardForm.exec(text);
  if (!match) return 'a line is neither a rule, a guarded rule nor COMMIT';
  const [, word, operator, value] = match as unknown as [string, string, string, string];
  const negated = operator === '!=';
  if (word === 'zone' || word === 'node') return readList(word, negated, value);
  if (negated) return `guard @${word} cannot be negated with !=`;
  if (word === 'ip-in' || word === 'ip-not-in') return readList('ip-in', word === 'ip-not-in', value);
  // Whether the chain is declared is checked at the end of the file.
  return { kind: 'local', negated: word === 'nolocal', chain: value };
}

function readList(kind: keyof typeof valueForms, negated: boolean, text: string): Guard | string {
  const values = text.split(',');
  const strange = values.find((value) => !valueForms[kind](value));
  if (strange !== undefined) return `guard @${kind} has the invalid value ${JSON.stringify(strange)}`;
  const sorted = values.every((value, index) => index === 0 || (values[index - 1] as string) < value);
  return sorted ? { kind, negated, values } : `the values of guard @${kind} are not sorted`;
}
