import {
  addAll,
  chainOf,
  compareText,
  dispatchChains,
  endpointOf,
  type Family,
  flatName,
  isOwnChain,
  isRuleError,
  isRuleLine,
  isServiceChain,
  type Problem,
  readRule,
  refusal,
  type Rule,
  serviceKeyOf,
  serviceOfKey,
} from '@sluice/netfilter';
import { type BundleFiles, nodeFile, readPath, withoutGuard } from '@sluice/bundle';
import { explainService } from './service.ts';
import { searchTree } from './tree.ts';
import { type Explanation, placesIn } from './explanation.ts';
import { tools } from '../bundle/tools.ts';
import { explainTable } from './table.ts';
import { explainVirtual } from './virtual.ts';

export type { Explanation } from './explanation.ts';

/**
 * Finds the Service that a chain, a rule or an address belongs to, and the lines of the bundle that have it.
 * @param query the name of a chain of either layout or of a set; a line as iptables-save prints it, with or without counters, or one of
 *   `ipvsadm -Ln`, `ipset list` or `nft list table inet sluice`; a Service (`shop/web`, `shop/web:http`); an address, with or without a port
 * @param node the node whose rules are linked to find a chain of layout `tree` that no file has; left out: the first one of each profile
 * @returns undefined when no file has it; a problem when `query` has none of these forms
 */
export function explain(files: BundleFiles, query: string, node?: string): Explanation | Problem | undefined {
  const text = query
    .trim()
    .replace(/^\[\d+:\d+\] /, '')
    // A chain, and not an element of IPv6: `:: . tcp . 30070`.
    .replace(/^:([^\s:]\S*) .*$/, '$1');
  if (node !== undefined && !files.has(nodeFile(node))) return unknownNode(query, node);
  // The name of a set may have the form of a hexadecimal address: each is asked.
  const answers = [explainService, explainVirtual, explainTable].map((explained) => explained(files, text));
  for (const one of answers) if (one !== 'other-form' && one !== undefined) return one;
  if (answers.includes(undefined)) return undefined;
  if (isRuleLine(text)) return ofRule(files, text, node, query);
  if (chainForm.test(text)) return ofChain(files, text, node);
  return malformed(
    query,
    'not the name of a chain, a Service, an address, a line that starts with -A, or a line of ipvsadm or ipset',
  );
}

const chainForm = /^[A-Za-z0-9-]{1,28}(?:\.[0-9a-z]{2})?$/;
const builtIn: ReadonlySet<string> = new Set(['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING']);

function ofRule(
  files: BundleFiles,
  text: string,
  node: string | undefined,
  query: string,
): Explanation | Problem | undefined {
  const rule = readRule(text, undefined, 'program');
  if (isRuleError(rule)) return malformed(query, rule.error);
  const target = rule.target && 'chain' in rule.target ? logicalName(rule.target.chain) : undefined;
  if (builtIn.has(rule.chain)) return target === undefined ? undefined : ofJump(files, rule.chain, target);
  const chain = logicalName(rule.chain);
  if (rule.chain.startsWith('SLU')) return ofTreeRule(files, rule, text, node);
  const key = shapeOf(rule);
  const like = found(files, chain, (line, family) => isLikeRule(line, family, chain, key));
  return like && { ...like, meaning: meaningOfRule(rule) };
}

/** The purpose of a rule: that of its target chain, or of its own chain. */
function meaningOfRule({ chain, target }: Rule): string {
  const to = target && 'chain' in target && isOwnChain(target.chain) ? target.chain : undefined;
  return to === undefined ? meaningOf(chain) : `leads to ${to}: ${meaningOf(to)}`;
}

/** A rule of a built-in chain is in no file: the linker writes one for each entry chain. */
function ofJump(files: BundleFiles, from: string, chain: string): Explanation | undefined {
  const to = ofChain(files, chain, undefined);
  return to && { ...to, meaning: `leads packets of ${from} to ${chain}: ${to.meaning}` };
}

/** A rule of layout `tree`: the line of a file that it was made from, else its chain. */
function ofTreeRule(files: BundleFiles, rule: Rule, text: string, node: string | undefined): Explanation | undefined {
  const own = isOwnChain(rule.chain);
  const chain = logicalName(rule.chain);
  const written = withLogicalTarget(rule);
  if (rule.matches.some(({ kind }) => kind === 'reflexive')) {
    const shared = ofChain(files, rule.chain, node);
    return shared && { ...shared, meaning: selfMeaning };
  }
  const key = serviceKeyOf(text);
  const ofService = own || key === undefined ? undefined : serviceOfKey(key);
  for (const from of own || chain !== rule.chain ? [chain] : dispatchChains.filter) {
    const shape = shapeOf({ ...written, chain: from });
    const like = found(files, from, (line, family) => isLikeRule(line, family, from, shape), ofService);
    if (like)
      return { ...like, layout: 'tree', counterpart: from, meaning: meaningOfRule({ ...written, chain: from }) };
  }
  return (own && ofEndpoint(files, rule, chain)) || ofChain(files, calledBy(written, own) ?? rule.chain, node);
}

/** The Service's chain that a rule outside of Services' chains jumps to. */
function calledBy({ target }: Rule, own: boolean): string | undefined {
  const name = target && 'chain' in target ? target.chain : undefined;
  return !own && name !== undefined && isOwnChain(name) ? name : undefined;
}

const selfMeaning =
  'masquerades and accepts the connection of a pod to itself through a Service; in layout flat the chain of each endpoint does that';

function withLogicalTarget(rule: Rule): Rule {
  const { target } = rule;
  return target && 'chain' in target ? { ...rule, target: { ...target, chain: logicalName(target.chain) } } : rule;
}

/** For an endpoint without a chain of its own: the lines of its chain in layout `flat`. */
function ofEndpoint(files: BundleFiles, rule: Rule, chain: string): Explanation | undefined {
  const translatesTo = endpointOf(rule);
  if (translatesTo === undefined) return undefined;
  const to = ` -j DNAT --to-destination ${translatesTo}`;
  const its = new Map([...files].filter(([, text]) => text.includes(`:${chain} `)));
  const like = found(its, 'KUBE-SEP-', (line) => line.endsWith(to) && line.includes(` -p ${rule.protocol} `));
  const [, endpoint] = /-A (KUBE-SEP-\S+) /.exec(like?.places[0]?.text ?? '') ?? [];
  return (
    like && {
      ...like,
      meaning: meaningOf('KUBE-SEP'),
      layout: 'tree',
      ...(endpoint === undefined ? {} : { counterpart: endpoint }),
    }
  );
}

function ofChain(files: BundleFiles, name: string, node: string | undefined): Explanation | undefined {
  const kind = linkerChain.exec(name)?.[1];
  if (kind !== undefined) return ofLinkerChain(files, name, kind, node);
  const chain = logicalName(name);
  const like = found(files, chain, (line) => line === `:${chain} - [0:0]`);
  return like && { ...like, ...layoutOf(name) };
}

const linkerChain = /^(SLUICE-T|SLUICE-R|SLU-GRP)-/;

const linkerMeanings: Readonly<Record<string, string>> = {
  'SLUICE-T': 'layout tree: a fork or leaf of the lookup of a Service by address, protocol and port',
  'SLUICE-R': 'layout tree: the root of a program',
  'SLU-GRP': 'layout tree: a group of endpoints of a Service port with many',
};

/** A chain that is in no file: the linker made it and named it by its content. */
function ofLinkerChain(files: BundleFiles, name: string, kind: string, node: string | undefined): Explanation {
  const meaning = linkerMeanings[kind] ?? '';
  const { found: at, nodes } = searchTree(files, name, node);
  const looked = nodes.length === 0 ? 'no node has layout tree' : `the rules of ${nodes.join(', ')} do not have it`;
  if (!at)
    return { layout: 'tree', places: [], meaning: `${meaning}; ${looked}: name the node, or use an older bundle` };
  const { keys } = at;
  const services = [...new Set(keys.map(serviceOfKey))];
  const places = services.length === 1 ? keys.slice(0, 1).flatMap((key) => frontendLines(files, key)) : [];
  return {
    ...(services.length === 1 ? { service: services[0] as string } : {}),
    ...(keys.length === 1 ? { ports: [{ key: keys[0] as string }] } : { services: keys }),
    layout: 'tree',
    places,
    meaning: `${meaning} (as linked for ${at.node})`,
  };
}

/** The lines that lead to a Service port at its ClusterIP. */
function frontendLines(files: BundleFiles, key: string): Explanation['places'] {
  return [...files]
    .filter(([path]) => path.includes(`/services/${serviceOfKey(key)}.`))
    .toSorted(([a], [b]) => compareText(a, b))
    .flatMap(([path, text]) =>
      placesIn(
        path,
        text,
        (line) => isRuleLine(line) && chainOf(line) === 'KUBE-SERVICES' && serviceKeyOf(line) === key,
      ),
    );
}

/** @param of the only Service whose files are searched */
function found(
  files: BundleFiles,
  chain: string,
  matches: (line: string, family: Family) => boolean,
  of?: string,
): Explanation | undefined {
  const places: Explanation['places'][number][] = [];
  const services = new Set<string>();
  const keys = new Set<string>();
  for (const [path, text] of [...files].toSorted(([a], [b]) => compareText(a, b))) {
    const what = readPath(path);
    if ((what?.kind !== 'service' && what?.kind !== 'base') || !text.includes(chain)) continue;
    const service = what.kind === 'service' ? `${what.namespace}/${what.name}` : undefined;
    if (of !== undefined && service !== of) continue;
    const family = tools.find(([tool]) => tool === what.tool)?.[1];
    if (family === undefined) continue;
    const lines = placesIn(path, text, (line) => matches(line, family));
    if (lines.length > 0 && service !== undefined) {
      services.add(service);
      for (const key of keysIn(text, service, lines[0]?.text ?? '')) keys.add(key);
    }
    addAll(places, lines);
  }
  if (places.length === 0) return undefined;
  const [service] = services;
  return {
    ...(service === undefined ? {} : { service }),
    ...(keys.size === 0 ? {} : { ports: [...keys].map((key) => ({ key })) }),
    ...layoutOf(chain),
    places,
    meaning: meaningOf(chain),
  };
}

/** The key of the port that a line of a Service's file belongs to: its own, or that of a rule of the chain that it declares. */
function keysIn(text: string, service: string, line: string): readonly string[] {
  const own = keyIn(line, service);
  if (own !== undefined) return [own];
  const chain = /^:(\S+) /.exec(line)?.[1] ?? chainOf(line.slice(line.indexOf('-A ')));
  for (const other of text.split('\n')) {
    const key = other.includes(` ${chain}`) ? keyIn(other, service) : undefined;
    if (key !== undefined) return [key];
  }
  return [];
}

/** The key of the Service in the comment of a line. */
function keyIn(line: string, service: string): string | undefined {
  const comment = / --comment (?:"([^"]*)"|(\S+))/.exec(line);
  const words = (comment?.[1] ?? comment?.[2] ?? '').split(' ');
  return words.find((word) => serviceOfKey(word) === service);
}

/** Whether a line of a file is equivalent to a rule, for any value of its variables. */
function isLikeRule(line: string, family: Family, chain: string, key: string): boolean {
  const text = withoutGuard(line);
  if (!text.startsWith(`-A ${chain} `)) return false;
  const bare = text.replaceAll(/ (?:! )?-[sdi] \$\{[^}]*\}\+?/g, '');
  const rule = readRule(bare, family);
  if (isRuleError(rule)) return false;
  if (bare === text) return shapeOf(rule) === key;
  const isOpen = text.includes(' -s ${') ? 'source' : text.includes(' -d ${') ? 'destination' : 'in';
  return shapeOf(rule) === withoutTest(key, isOpen);
}

/** The text of a rule without comments, which tools may leave out. */
function shapeOf(rule: Rule): string {
  const { source, destination, in: incoming, out, protocol, target, chain } = rule;
  const matches = rule.matches
    .filter(({ kind }) => kind !== 'comment')
    .map((match) => JSON.stringify(match))
    .toSorted(compareText);
  return JSON.stringify({ chain, source, destination, in: incoming, out, protocol, matches, target });
}

function withoutTest(key: string, test: 'source' | 'destination' | 'in'): string {
  const { [test]: _left, ...rest } = JSON.parse(key) as Record<string, unknown>;
  return JSON.stringify(rest);
}

const unknownNode = (query: string, node: string): Problem =>
  refusal(
    'BUNDLE_UNKNOWN_NODE',
    `Cannot explain ${JSON.stringify(query)} by the rules of ${node}: the bundle has no ${nodeFile(node)}`,
    '`sluice ls` lists the nodes of a bundle',
  );

const malformed = (query: string, why: string): Problem =>
  refusal(
    'RULE_REFUSED',
    `Cannot explain ${JSON.stringify(query)}: ${why}`,
    'Give the name of a chain, such as KUBE-SVC-ERIFXISQEP7F7OF4, a line of iptables-save, ipvsadm -Ln or ipset list in quotes, a Service or an address',
  );

const meanings: Readonly<Record<string, string>> = {
  'KUBE-SVC': 'every usable endpoint of a Service port',
  'KUBE-SVL': 'the endpoints of a Service port on the node itself',
  'KUBE-EXT': 'traffic to node ports, external and load-balancer addresses',
  'KUBE-FW': 'source ranges of the load-balancer addresses of a Service port',
  'KUBE-SEP': 'one endpoint of a Service port',
  'KUBE-SERVICES': 'entry point of traffic to Services',
  'KUBE-EXTERNAL-SERVICES': 'rejects or drops traffic to external addresses and node ports',
  'KUBE-NODEPORTS': 'node ports in table nat, health-check ports in table filter',
  'KUBE-POSTROUTING': 'masquerades packets that carry the mark',
  'KUBE-MARK-MASQ': 'marks packets for masquerading',
  'KUBE-FORWARD': 'accepts forwarded packets of Services',
  'KUBE-PROXY-FIREWALL': 'drops traffic from outside the source ranges of a load balancer',
  'KUBE-FIREWALL': "blocks access of other hosts to the node's loopback addresses",
  'KUBE-NODE-PORT': 'in mode ipvs: masquerading for node ports in table nat, health-check ports in table filter',
  'KUBE-LOAD-BALANCER': 'in mode ipvs: masquerading for load-balancer addresses',
  'KUBE-SOURCE-RANGES-FIREWALL':
    'in mode ipvs: accepts traffic from the source ranges of a load balancer, drops the rest',
  'KUBE-IPVS-FILTER': "in mode ipvs: rejects traffic to ports that no Service has at Services' addresses",
  'KUBE-IPVS-OUT-FILTER': 'in mode ipvs: blocks a node outside the source ranges from a load balancer',
};

/** The purpose of a chain. @param chain its name in bundle files */
function meaningOf(chain: string): string {
  return meanings[chain] ?? meanings[chain.split('-').slice(0, 2).join('-')] ?? 'a chain of the profile';
}

/** The name of a chain in bundle files: `KUBE-SVC-…` of `SLU-SVC-….1c`, `KUBE-SERVICES` of `SLUICE-SERVICES`. */
function logicalName(chain: string): string {
  const own = flatName(chain);
  if (own !== chain) return own;
  const shared = chain.replace(/^SLUICE-/, 'KUBE-');
  return Object.hasOwn(meanings, shared) ? shared : chain;
}

/** Chains with one name in both layouts: those of mode ipvs, which has one layout, and those that CNI plugins rely on. */
const inBoth: ReadonlySet<string> = new Set([
  'KUBE-NODE-PORT',
  'KUBE-LOAD-BALANCER',
  'KUBE-SOURCE-RANGES-FIREWALL',
  'KUBE-IPVS-FILTER',
  'KUBE-IPVS-OUT-FILTER',
  'KUBE-MARK-MASQ',
  'KUBE-POSTROUTING',
]);

/** The layout in which a chain has this name, and its name in the other layout. */
function layoutOf(chain: string): Pick<Explanation, 'layout' | 'counterpart'> {
  const logical = logicalName(chain);
  if (logical !== chain) return { layout: 'tree', counterpart: logical };
  if (chain.startsWith('SLU')) return { layout: 'tree' };
  if (isServiceChain(chain)) return { layout: 'flat', counterpart: `${chain.replace(/^KUBE/, 'SLU')}.*` };
  if (!Object.hasOwn(meanings, chain) || inBoth.has(chain)) return {};
  return { layout: 'flat', counterpart: chain.replace(/^KUBE-/, 'SLUICE-') };
}
