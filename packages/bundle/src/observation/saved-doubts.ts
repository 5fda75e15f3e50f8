import { canonicalAddress, isProxysChain, shortList } from '@sluice/netfilter';
import type { MissingPart, Observation, ObservationPart } from './observation.ts';
import type { PartText, RulePart } from './saved-rules.ts';

/** What saved outputs say of each other: a file that was cut at the end of a line looks whole by itself. */

type ReadParts = Omit<Observation, 'missing' | 'node' | 'tools'>;
type Texts = Readonly<Partial<Record<ObservationPart, PartText>>>;

/**
 * Parts that other parts show not to be whole, or that may be empty because the tool was not allowed to read.
 * @param texts those without a file were read from the machine, where nothing is cut
 * @param missing parts that are known to be missing, which are not named again
 */
export function doubtfulParts(seen: ReadParts, texts: Texts, missing: readonly MissingPart[]): readonly MissingPart[] {
  const fileOf = (part: ObservationPart): string | undefined => {
    const text = texts[part];
    return text && 'text' in text ? text.file : undefined;
  };
  const lacking = (part: ObservationPart, what: readonly string[], shown: string): readonly MissingPart[] => {
    const file = fileOf(part);
    if (file === undefined || what.length === 0 || missing.some((one) => one.part === part)) return [];
    return [{ part, why: `${file}: it may be truncated: it lacks ${shortList(what, 1)}, which ${shown}` }];
  };
  // A file that is there and cannot be read is the cause by itself.
  const isUnread = missing.some(({ part, why }) => isOfRules(part) && !why.startsWith('there is no '));
  return [
    ...lacking('sets', setsWithout(seen), 'a rule names'),
    ...lacking('addresses', addressesWithout(seen), `${fileOf('routes')} has as an address of the node`),
    ...lacking('addresses', onlyLoopback(seen), 'each node has'),
    ...lacking('servers', serversWithout(seen), 'a set of kube-proxy has'),
    ...lacking('servers', serversWithoutEnd(texts.servers), 'only Services without endpoints lack'),
    ...(hasProxy(seen) ? emptyFamilies(seen, texts) : isUnread ? [] : emptyParts(texts)),
  ];
}

/** kube-proxy writes rules of both families, also where Services have one. */
function emptyFamilies({ rules }: ReadParts, texts: Texts): readonly MissingPart[] {
  const isOfProxy = (line: string): boolean => isProxysChain(/^:(\S+) /.exec(line)?.[1] ?? '');
  return rules.flatMap(({ store, family, lines }) => {
    const [part, other] = (['ipv4', 'ipv6'] as const)
      .toSorted((one) => (one === family ? 1 : -1))
      .map((one): RulePart => `rules-${store}-${one}`);
    const [text, full] = [part && texts[part], other && texts[other]];
    if (!part || !isEmptyFile(text) || !lines.some(isOfProxy)) return [];
    const otherFile = full && 'text' in full ? full.file : other;
    return [{ part, why: `${text.file}: it is empty, and ${otherFile} has rules of Services: save it as root` }];
  });
}

const isEmptyFile = (text: PartText | undefined): text is PartText & { readonly file: string } =>
  text !== undefined && 'text' in text && text.file !== undefined && text.text.trim() === '';

/** An interface besides `lo`. */
const onlyLoopback = ({ interfaces }: ReadParts): readonly string[] =>
  interfaces.every((line) => line.startsWith('lo ')) ? ['an interface besides lo'] : [];

/** A virtual server without a real one, at the end of its file: they may have been cut. */
function serversWithoutEnd(text: PartText | undefined): readonly string[] {
  const last = text && 'text' in text ? (text.text.trimEnd().split('\n').at(-1)?.trim() ?? '') : '';
  const [, saved, protocol, listed] = /^(?:-A (?:-t|-u|--sctp-service) (\S+)|(TCP|UDP|SCTP) +(\S+))/.exec(last) ?? [];
  const place = saved ?? (listed && `${protocol} ${listed}`);
  return place === undefined ? [] : [`a real server of its last virtual server ${place}`];
}

/** Names of sets that the kernel must have: no rule can name another one. */
function setsWithout({ rules, sets }: ReadParts): readonly string[] {
  const known = new Set(sets.map((line) => line.split(' ')[1]));
  const named = rules.flatMap(({ lines }) => lines.flatMap((line) => line.match(/(?<=--match-set )\S+/g) ?? []));
  return [...new Set(named)].filter((name) => !known.has(name)).map((name) => `set ${name}`);
}

/** The kernel keeps a route `local ADDRESS dev …` for each address of an interface. */
function addressesWithout({ routes, interfaces, serverAddresses }: ReadParts): readonly string[] {
  const bound = new Set([
    ...interfaces.map((line) => canonicalAddress(line.split(' ')[1]?.split('/')[0] ?? '')),
    ...serverAddresses.ipv4,
    ...serverAddresses.ipv6,
  ]);
  const local = routes.flatMap((line) => canonicalAddress(/^local ([0-9a-f.:]+) dev /.exec(line)?.[1] ?? '') ?? []);
  return [...new Set(local)].filter((address) => !bound.has(address) && !/^fe80:|^127\.|^::1$/.test(address));
}

/** Sets of frontends that kube-proxy fills with each virtual server (`pkg/proxy/ipvs/ipset.go`). */
const frontendSets =
  /^add KUBE-(?:6-)?(?:CLUSTER-IP|LOAD-BALANCER|EXTERNAL-IP|EXTERNAL-IP-LOCAL) ([^,]+),(tcp|udp|sctp):(\d+)\b/;

/** Of each node port there is a virtual server at an address of the node. */
const nodePortSets = /^add KUBE-(?:6-)?NODE-PORT-(?:LOCAL-)?(TCP|UDP) (\d+)\b/;

function serversWithout({ sets, servers }: ReadParts): readonly string[] {
  const known = new Set(servers.map((line) => line.split(' ').slice(0, 3).join(' ')));
  const ports = new Set([...known].map((line) => `${line.split(' ')[1]} ${line.split(':').at(-1)}`));
  const options = { tcp: '-t', udp: '-u', sctp: '--sctp-service' } as const;
  return sets.flatMap((line) => {
    const [, kind = '', number] = nodePortSets.exec(line) ?? [];
    if (number !== undefined && !ports.has(`${kind === 'TCP' ? '-t' : '-u'} ${number}`))
      return [`node port ${number}/${kind.toLowerCase()}`];
    const [, address = '', protocol = '', port = ''] = frontendSets.exec(line) ?? [];
    if (address === '') return [];
    const place = `${address.includes(':') ? `[${address}]` : address}:${port}`;
    return known.has(`-A ${options[protocol as keyof typeof options]} ${place}`) ? [] : [`${place}/${protocol}`];
  });
}

/** Virtual servers alone are none: in mode ipvs there are rules, too. */
const hasProxy = ({ rules, nftTables }: ReadParts): boolean =>
  nftTables.some(({ name }) => name === 'kube-proxy' || name === 'sluice') ||
  rules.some(({ lines }) => lines.some((line) => isProxysChain(/^:(\S+) /.exec(line)?.[1] ?? '')));

const isOfRules = (part: ObservationPart): boolean =>
  part.startsWith('rules-') || part === 'nft-tables' || part === 'servers';

/** Without root, tools for rules print nothing to their output. */
function emptyParts(texts: Texts): readonly MissingPart[] {
  const names = Object.keys(texts) as readonly ObservationPart[];
  return names.flatMap((part) => {
    const text = texts[part];
    if (!isOfRules(part) || !isEmptyFile(text)) return [];
    return [{ part, why: `${text.file}: it is empty, and no other file has rules of Services: save it as root` }];
  });
}
