import { readRule } from '../rules/read.ts';
import { isRuleError, printEndpoint, type Rule } from '../rules/rule.ts';

/** The address, protocol and port at which a Service answers. */
export interface ServiceFrontend {
  readonly protocol: string;
  /** undefined: a node port at any address of the node; a network such as `192.0.2.0/24`: at its addresses in that network. */
  readonly address: string | undefined;
  readonly port: number;
}

/** Reads a rule of a program; undefined outside of the grammar. */
export function readLinked(text: string): Rule | undefined {
  const rule = readRule(text, undefined, 'program');
  return isRuleError(rule) ? undefined : rule;
}

/**
 * The frontend whose packets a rule matches.
 * @returns undefined if it has no protocol and port, or a negated match
 */
export function frontendOf(rule: Rule): ServiceFrontend | undefined {
  const { protocol, destination, source, in: from, out, matches } = rule;
  if ([destination, source, from, out].some((test) => test?.negated)) return undefined;
  if (matches.some((match) => match.kind === 'physdev' || ('negated' in match && match.negated))) return undefined;
  const port = matchedPort(rule);
  if (protocol === undefined || port === undefined) return undefined;
  return { protocol, address: destination && withoutPrefix(destination.value), port };
}

/** `frontendOf` a linked rule. Without parsing, for speed: there is a rule per frontend. */
export function frontendOfLinked(text: string): ServiceFrontend | undefined {
  const [before, after] = [text.indexOf('"'), text.lastIndexOf('"')];
  const words = (before < 0 ? text : `${text.slice(0, before)}${text.slice(after)}`).split(' ');
  const valueOf = (option: string): string | undefined => words[words.indexOf(option) + 1 || words.length];
  const [protocol, port, destination] = [valueOf('-p'), valueOf('--dport'), valueOf('-d')];
  if (protocol === undefined || port === undefined || port.includes(':') || words.includes('!')) return undefined;
  return { protocol, address: destination && withoutPrefix(destination), port: Number(port) };
}

/** The address of a CIDR of one address; other CIDRs stay. */
function withoutPrefix(cidr: string): string {
  const [address = '', prefix] = cidr.split('/');
  return prefix === (address.includes(':') ? '128' : '32') ? address : cidr;
}

/** `tcp 10.96.0.10 80`; of a node port `tcp * 30080`. */
export const printFrontend = ({ protocol, address, port }: ServiceFrontend): string =>
  `${protocol} ${address ?? '*'} ${port}`;

/** Empty without a comment. */
export const commentOf = ({ matches }: Rule): string => matches.find((match) => match.kind === 'comment')?.text ?? '';

/** The destination port that a rule matches. */
export function matchedPort({ matches }: Rule): number | undefined {
  for (const match of matches) if ('destinationPort' in match) return match.destinationPort;
  return undefined;
}

/** The one destination address that a rule matches, as in `-d 10.96.0.10`; undefined for a network, and for a negated match. */
export function matchedAddress({ destination }: Rule): string | undefined {
  if (!destination || destination.negated) return undefined;
  const { value } = destination;
  const address = withoutPrefix(value);
  return address === value ? undefined : address;
}

/** The maximum age of the list of clients that a rule searches: session affinity. 0: any age. */
export function affinitySeconds({ matches }: Rule): number | undefined {
  for (const match of matches) if (match.kind === 'recent' && match.action === 'rcheck') return match.seconds ?? 0;
  return undefined;
}

/** The endpoint to which a rule translates: `10.244.1.5:8080`. */
export function endpointOf({ target }: Rule): string | undefined {
  return target?.kind === 'dnat' ? printEndpoint(target.address, target.port) : undefined;
}

/** `10.244.1.5` of `10.244.1.5:8080`, `fd00::1` of `[fd00::1]:8080`. */
export function addressOfEndpoint(endpoint: string): string {
  const colon = endpoint.lastIndexOf(':');
  return colon < 0 ? endpoint : endpoint.slice(0, colon).replaceAll(/[[\]]/g, '');
}

/** Whether a rule rejects packets, or drops them. */
export const refuses = ({ target }: Rule): boolean => target?.kind === 'reject' || target?.kind === 'drop';

/** Whether a rule has its packets masqueraded, whatever it matches. */
export function masquerades({ target }: Rule): boolean {
  return target?.kind === 'jump' && (target.chain === 'KUBE-MARK-MASQ' || target.chain === 'SLUICE-MARK-MASQ');
}

/** Whether a rule matches nothing besides its protocol, its comment and these kinds. */
export function matchesOnly(
  { source, destination, in: from, out, matches }: Rule,
  ...kinds: readonly string[]
): boolean {
  if (source ?? destination ?? from ?? out) return false;
  return matches.every(({ kind }) => kind === 'comment' || kinds.includes(kind));
}

/** The word after the last option of a rule, if it is that option. Without parsing, for speed: there is a rule per endpoint. */
function lastWord(text: string, ...options: readonly string[]): string | undefined {
  const at = text.lastIndexOf(' ') + 1;
  return options.some((option) => text.endsWith(option, at)) ? text.slice(at) : undefined;
}

/** The chain or the built-in target of a linked rule, if that is its last word. */
export const calleeOf = (text: string): string | undefined => lastWord(text, ' -j ', ' -g ');

/** Whether a linked rule rejects packets. */
export const rejects = (text: string): boolean =>
  text.endsWith(' -j REJECT') || lastWord(text, ' -j REJECT --reject-with ') !== undefined;

/** `endpointOf` a linked rule. */
export const destinationOf = (text: string): string | undefined => lastWord(text, ' --to-destination ');
