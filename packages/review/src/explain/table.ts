import { type BundleFiles, serviceOf, withoutGuard } from '@sluice/bundle';
import { readListName } from '@sluice/netfilter';
import { type Explanation, linesOf } from './explanation.ts';

/** What each set and map of mode nftables holds; `4` and `6` are the families. */
const sets: Readonly<Record<string, string>> = {
  svc: 'the frontends and the lists of endpoints that serve them',
  out: 'the local lists, for sources outside of the cluster: policy Local',
  none: 'frontends that no endpoint serves: their packets are rejected or dropped',
  fw: 'frontends that only some sources may use',
  allow: 'the sources that may use a frontend of set fw',
  always: 'frontends whose connections are masqueraded: policy Cluster, reached from outside',
  near: 'frontends with policy Local, reached from outside',
  cluster: 'ClusterIPs: other ports of them are rejected',
  pods: 'the addresses of pods: they count as inside of the cluster',
  keep: 'sources that keep their address at a ClusterIP',
  node: 'addresses of the node that have node ports',
  cidr: 'the Service CIDRs: packets to an address that no Service has are dropped',
  health: 'health-check node ports, on which sluiced answers',
  tcp: 'endpoints by their frontend and slot',
  udp: 'endpoints by their frontend and slot',
  sctp: 'endpoints by their frontend and slot',
  sticky: 'frontends with session affinity',
  slot: 'the id of the endpoint in each slot: session affinity',
  id: 'endpoints by their id: session affinity',
  lid: 'endpoints of local lists by their id: session affinity',
  aff: 'the endpoint that each client keeps: session affinity',
  loop: 'each endpoint with itself: such connections are masqueraded',
  trial: 'the sources that use a release on probation',
  tkey: 'the frontends that a release on probation changes',
};

/** The chains of the table; lists have their own. */
const chains: Readonly<Record<string, string>> = {
  ranges: 'drops packets of sources that may not use their frontend, before translation',
  services: 'leads new connections to the list of their frontend',
  nodeports: 'the same for node ports, at addresses of the node',
  localhost: 'the same for node ports on 127.0.0.1: with policy Local the endpoints of the node alone',
  unserved: 'rejects or drops what no endpoint serves',
  'unserved-node': 'the same for node ports',
  'unserved-localhost':
    'rejects node ports on loopback addresses, apart from those that the table or sluiced serves there',
  masquerade: 'decides by what a connection was meant for whether it is masqueraded',
  'masquerade-cluster': 'the same for ClusterIPs',
  'masquerade-node': 'the same for node ports',
};

/** Chains that both families have in common. */
const common: Readonly<Record<string, string>> = {
  refuse: 'rejects packets of frontends without an endpoint',
  'refuse-localhost': 'rejects node ports on loopback addresses, TCP with a reset',
  'pre-dnat':
    'before the routing of what comes in: chain ranges, and the guard of loopback addresses against other hosts',
  'out-dnat': 'before the routing of what the node sends: chain ranges',
  'nat-prerouting': 'translates what comes in: chain services',
  'nat-output': 'translates what the node sends: chain services',
  'nat-postrouting': 'masquerades what was translated: chain masquerade',
  input: 'judges packets to the node that nothing translated: chain unserved',
  forward: 'judges forwarded packets that nothing translated: chain unserved',
  output: 'judges packets of the node that nothing translated: chain unserved',
};

const protocols: Readonly<Record<string, string>> = { 6: 'tcp', 17: 'udp', 132: 'sctp' };

const elementForm = /^\S+ \. \S+(?: \. \S+)*(?: : .+)?$/;

/** A port, an address or a network: an element of a set with one part. */
const plainForm = /^(?:\d{1,5}|[\da-f]*[.:][\da-f.:]+(?:\/\d{1,3})?)$/;

/**
 * Finds the owner of an element, or says what a set, a map or the chain of a list is for.
 * @param text as `nft list table inet sluice` prints it, with names or numbers of protocols: the name of a set, a map or a chain, an
 *   element, or a line `add element inet sluice …`
 * @returns `other-form` for a text of another form, undefined when no file has it
 */
export function explainTable(files: BundleFiles, text: string): Explanation | 'other-form' | undefined {
  if (![...files.keys()].some((path) => path.endsWith('.nft'))) return 'other-form';
  const bare = text.replace(/^(?:set|map|chain) (\S+)(?: \{)?$/, '$1');
  const [, name, body] = /^add element inet sluice (\S+) \{ (.+) \}$/.exec(bare) ?? [];
  if (name !== undefined) return ofElement(files, (body ?? '').split(', ')[0] ?? '', name);
  const meaning = meaningOf(bare);
  if (meaning !== undefined) return ofTable(files, bare, meaning);
  const element = bare.replace(/,$/, '');
  return elementForm.test(element) || plainForm.test(element) ? ofElement(files, element, undefined) : 'other-form';
}

function meaningOf(name: string): string | undefined {
  const chain = /^([a-z-]+)[46]$/.exec(name)?.[1] ?? '';
  const purpose = Object.hasOwn(common, name) ? common[name] : Object.hasOwn(chains, chain) ? chains[chain] : undefined;
  if (purpose !== undefined) return `a chain of mode nftables: ${purpose}`;
  const trial = /^(?:trial-|t(?=masquerade))(.+)$/.exec(chain)?.[1] ?? '';
  if (Object.hasOwn(chains, trial)) return `a chain of mode nftables for a release on probation: ${chains[trial]}`;
  const [, base = ''] = /^([a-z]+?)b?[46]$/.exec(name) ?? [];
  const known = Object.hasOwn(sets, base) ? sets[base] : undefined;
  if (known !== undefined) return `a set or map of mode nftables: ${known}`;
  const probation = base.startsWith('t') && Object.hasOwn(sets, base.slice(1)) ? sets[base.slice(1)] : undefined;
  if (probation !== undefined) return `the same as ${name.slice(1)} for a release on probation: ${probation}`;
  const list = readListName(name.replace(/-known$/, ''));
  if (!list) return undefined;
  const kind = list.isLocal ? 'local lists' : 'lists';
  const sticky = list.seconds === undefined ? '' : `, with session affinity for ${list.seconds} s`;
  const how = list.scheduler === 'random' ? '' : ` by ${list.scheduler}`;
  const whose = list.owner === undefined ? `of all ${kind}` : `of a ${kind.slice(0, -1)} of one frontend`;
  return `chooses an endpoint${how}: the chain ${whose} of ${list.count}${list.isNodePort ? ' of node ports' : ''}${sticky}`;
}

/** The first line of the table that declares it, in each profile; the chains of lists are made by the node. */
function ofTable(files: BundleFiles, name: string, meaning: string): Explanation {
  const declares = new RegExp(`^ {2}(?:set|map|chain) ${name} \\{`);
  const places = linesOf(files, 'base/first.nft').filter(({ text }) => declares.test(text));
  return { places, meaning };
}

function ofElement(files: BundleFiles, element: string, set: string | undefined): Explanation | undefined {
  const wanted = wantedOf(element);
  const lines = linesOf(files, '.nft').filter(({ text }) => {
    const line = withoutGuard(text);
    const isOfSet = set === undefined || line.startsWith(`add element inet sluice ${set} `);
    return line.startsWith('add element ') && isOfSet && hasElement(line, wanted);
  });
  if (lines.length === 0) return undefined;
  const services = [...new Set(lines.map(({ file }) => serviceOf(file)))];
  // Base files are of no Service.
  const isOne = services.length === 1 && services[0] !== undefined && services[0] !== '';
  return {
    ...(isOne ? { service: services[0] } : {}),
    places: lines,
    meaning: 'an element of the table of mode nftables',
  };
}

/** What elements in files have of an element of the kernel: names of protocols, variables instead of slots, and no ids. */
interface WantedElement {
  /** The element itself, or its part before a space. */
  readonly start: string;
  readonly end: string;
}

function wantedOf(element: string): WantedElement {
  const [start = '', value = ''] = element.split(' : ');
  const [address = '', second = '', third = ''] = start.split(' . ');
  const protocol = protocols[second] ?? second;
  const isFrontend = Object.values(protocols).includes(protocol);
  if (isFrontend) return { start: `${address} . ${protocol} . ${third}`, end: '' };
  // An endpoint: its slot is the node's own.
  return value.includes(' . ') ? { start: `${address} . ${second} .`, end: ` : ${value}` } : { start, end: '' };
}

function hasElement(line: string, { start, end }: WantedElement): boolean {
  const elements = line.slice(line.indexOf('{ ') + 2, -2).split(', ');
  return elements.some((one) => (one === start || one.startsWith(`${start} `)) && one.endsWith(end));
}
