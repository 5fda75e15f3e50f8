import {
  type BundleFiles,
  compareText,
  type Family,
  isRuleError,
  type Problem,
  readPath,
  readRule,
  type Rule,
} from '@sluice/bundle';
import { tools } from './tools.ts';
import { explainVirtual } from './virtual/explain.ts';

/** Whose a chain or a rule is. */
export interface Explanation {
  /** `shop/web`; absent for what all Services share. */
  readonly service?: string;
  /** The files that have it, and the line in each; several profiles may. */
  readonly places: readonly { readonly file: string; readonly line: number; readonly text: string }[];
  /** What such a chain is for. */
  readonly meaning: string;
}

const meanings: Readonly<Record<string, string>> = {
  'KUBE-SVC': 'every usable endpoint of a Service port',
  'KUBE-SVL': 'the endpoints of a Service port on the node itself',
  'KUBE-EXT': 'what comes in through node ports, external and load-balancer addresses',
  'KUBE-FW': 'who may use the load-balancer addresses of a Service port',
  'KUBE-SEP': 'one endpoint of a Service port',
  'KUBE-SERVICES': 'where traffic to all Services starts',
  'KUBE-EXTERNAL-SERVICES': 'what is turned away at external addresses and node ports',
  'KUBE-NODEPORTS': 'node ports in table nat, health-check ports in table filter',
  'KUBE-POSTROUTING': 'masquerades packets that carry the mark',
  'KUBE-MARK-MASQ': 'marks packets that are to be masqueraded',
  'KUBE-FORWARD': 'lets forwarded packets of Services pass',
  'KUBE-PROXY-FIREWALL': 'drops what is outside the source ranges of a load balancer',
  'KUBE-FIREWALL': "keeps neighbours from the node's loopback addresses",
  'KUBE-NODE-PORT': 'in mode ipvs: whom node ports masquerade in table nat, health-check ports in table filter',
  'KUBE-LOAD-BALANCER': 'in mode ipvs: whom load-balancer addresses masquerade',
  'KUBE-SOURCE-RANGES-FIREWALL':
    'in mode ipvs: lets in who is in the source ranges of a load balancer, and drops the others',
  'KUBE-IPVS-FILTER': "in mode ipvs: turns away what no Service has at the Services' own addresses",
  'KUBE-IPVS-OUT-FILTER': 'in mode ipvs: keeps a node outside of the source ranges from a load balancer',
};

/** Chains that only layout `tree` has: they stand in no file. */
const treeMeanings: Readonly<Record<string, string>> = {
  'SLUICE-T': 'layout tree: a fork or a leaf on the way to a Service, by address, protocol and port',
  'SLUICE-R': 'layout tree: the root of a program',
  'SLU-GRP': 'layout tree: some of the endpoints of a Service port with many',
};

/**
 * Finds what a chain or a rule of a kernel belongs to.
 * @param asked the name of a chain of either layout or of a set; a line as iptables-save prints it, with or without counters, or one of
 *   `ipvsadm -Ln` or `ipset list`
 * @returns nothing when no file has it; a problem when it is neither a chain nor a rule
 */
export function explain(files: BundleFiles, asked: string): Explanation | Problem | undefined {
  const text = asked
    .trim()
    .replace(/^\[\d+:\d+\] /, '')
    .replace(/^:(\S+) .*$/, '$1');
  const virtual = explainVirtual(files, text);
  if (virtual !== 'unasked') return virtual;
  if (!text.startsWith('-A ')) {
    if (!chainForm.test(text))
      return malformed(asked, 'it is neither a chain, a line that starts with -A, nor a line of ipvsadm or ipset');
    return ofChain(files, text);
  }
  const rule = readRule(text, undefined, 'program');
  if (isRuleError(rule)) return malformed(asked, rule.error);
  const chain = logical(rule.chain);
  const target = rule.target && 'chain' in rule.target ? logical(rule.target.chain) : undefined;
  // Layout tree parts the rules of shared chains otherwise; the Service is the one that such a rule leads to.
  if (rule.chain.startsWith('SLU')) return ofChain(files, chain.startsWith('KUBE-') ? chain : (target ?? chain));
  if (builtIn.has(rule.chain)) return target === undefined ? undefined : ofJump(files, rule.chain, target);
  const key = shapeOf(rule);
  return found(files, chain, (line, family) => isLikeRule(line, family, chain, key));
}

const builtIn: ReadonlySet<string> = new Set(['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING']);

/** A rule of a built-in chain stands in no file: the linker writes it for each chain that packets start in. */
function ofJump(files: BundleFiles, from: string, chain: string): Explanation | undefined {
  const to = ofChain(files, chain);
  return to && { ...to, meaning: `leads packets of ${from} to ${chain}, which is ${to.meaning}` };
}

const chainForm = /^[A-Za-z0-9-]{1,28}(?:\.[0-9a-z]{2})?$/;

/** The name under which files have a Service's chain: `KUBE-SVC-…` of `SLU-SVC-….1c`, `KUBE-SERVICES` of `SLUICE-SERVICES`. */
function logical(chain: string): string {
  const own = /^SLU-((?:SVC|SVL|EXT|FW|SEP)-[A-Z2-7]{16})\.[0-9a-z]{2}$/.exec(chain)?.[1];
  if (own !== undefined) return `KUBE-${own}`;
  const shared = chain.replace(/^SLUICE-/, 'KUBE-');
  return Object.hasOwn(meanings, shared) ? shared : chain;
}

function ofChain(files: BundleFiles, name: string): Explanation | undefined {
  const chain = logical(name);
  const meaning = treeMeanings[chain.split('-').slice(0, 2).join('-')];
  if (meaning !== undefined) return { places: [], meaning };
  return found(files, chain, (line) => line === `:${chain} - [0:0]`);
}

function found(
  files: BundleFiles,
  chain: string,
  matches: (line: string, family: Family) => boolean,
): Explanation | undefined {
  const places: Explanation['places'][number][] = [];
  const services = new Set<string>();
  for (const [path, text] of [...files].toSorted(([a], [b]) => compareText(a, b))) {
    const what = readPath(path);
    if ((what?.kind !== 'service' && what?.kind !== 'base') || !text.includes(chain)) continue;
    const family = tools.find(([tool]) => tool === what.tool)?.[1];
    if (family === undefined) continue;
    for (const [index, line] of text.split('\n').entries()) {
      if (!matches(line, family)) continue;
      places.push({ file: path, line: index + 1, text: line });
      if (what.kind === 'service') services.add(`${what.namespace}/${what.name}`);
    }
  }
  if (places.length === 0) return undefined;
  const [service] = services;
  const meaning = meanings[chain] ?? meanings[chain.split('-').slice(0, 2).join('-')] ?? 'a chain of the profile';
  return { ...(service === undefined ? {} : { service }), places, meaning };
}

/** Whether a line of a file says the same as a rule, whatever its variables stand for. */
function isLikeRule(line: string, family: Family, chain: string, key: string): boolean {
  const text = line.startsWith('@') ? line.slice(line.indexOf(' ') + 1) : line;
  if (!text.startsWith(`-A ${chain} `)) return false;
  const bare = text.replaceAll(/ (?:! )?-[sdi] \$\{[^}]*\}\+?/g, '');
  const rule = readRule(bare, family);
  if (isRuleError(rule)) return false;
  if (bare === text) return shapeOf(rule) === key;
  const isOpen = text.includes(' -s ${') ? 'source' : text.includes(' -d ${') ? 'destination' : 'in';
  return shapeOf(rule) === withoutTest(key, isOpen);
}

/** A rule as a text in which comments, which tools may leave out, do not count. */
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

function malformed(asked: string, why: string): Problem {
  return {
    code: 'RULE_REFUSED',
    level: 'error',
    message: `Cannot explain ${JSON.stringify(asked)}: ${why}`,
    hint: 'Give the name of a chain, such as KUBE-SVC-ERIFXISQEP7F7OF4, or a line of iptables-save, ipvsadm -Ln or ipset list in quotes',
  };
}
