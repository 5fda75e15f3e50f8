/** Rules by table and chain, in the order of the chain. */
export type SavedChains = ReadonlyMap<string, readonly string[]>;

/** Reads the output of a save tool. @returns by `nat KUBE-SERVICES`; built-in chains and those of Services alike */
export function readSaved(text: string): SavedChains {
  const chains = new Map<string, string[]>();
  let table = '';
  for (const line of text.split('\n')) {
    if (line.startsWith('*')) table = line.slice(1);
    const declared = /^:(\S+)/.exec(line)?.[1];
    if (declared !== undefined) chains.set(`${table} ${declared}`, []);
    const [, chain] = /^-A (\S+)/.exec(line) ?? [];
    if (chain !== undefined) chains.get(`${table} ${chain}`)?.push(line);
  }
  return chains;
}

/** Chains with a rule for each Service: each matches its own addresses and ports, so that no packet can tell their order. */
const perService =
  /^(?:nat KUBE-(?:SERVICES|NODEPORTS)|filter KUBE-(?:SERVICES|EXTERNAL-SERVICES|NODEPORTS|PROXY-FIREWALL|IPVS-OUT-FILTER))$/;

/** Rules of kube-proxy that no packet can detect, by name. */
const undetectable: readonly {
  readonly name: string;
  readonly without: (chain: string, rules: readonly string[]) => readonly string[];
}[] = [
  {
    name: 'canaries, which detect a flush of the tables',
    without: (chain, rules) => (/^\S+ KUBE-(?:PROXY|KUBELET)-CANARY$/.test(chain) ? [] : rules),
  },
  {
    name: 'a copy of the rule of a node port, only for loopback, that counts what it accepts',
    without: (_chain, rules) =>
      rules.filter((rule) => {
        const isCopy = rule.includes('--nfacct-name  localhost_nps_accepted_pkts');
        return !isCopy || !rules.includes(withoutCounter(rule).replace(/ -d 127\.0\.0\.0\/8/, ''));
      }),
  },
  { name: 'counters of packets', without: (_chain, rules) => rules.map(withoutCounter) },
];

/** Without chains of Services that no rule refers to: kube-proxy has some for external IPs while their feature gate is off. */
function reached(chains: SavedChains): SavedChains {
  const targets = new Set([...chains.values()].flat().map((rule) => / -[jg] (\S+)/.exec(rule)?.[1] ?? ''));
  const isReached = (name: string): boolean =>
    !/^nat KUBE-(?:SVC|SVL|EXT|FW|SEP)-/.test(name) || targets.has(name.slice(4));
  const left = new Map([...chains].filter(([name]) => isReached(name)));
  return left.size === chains.size ? chains : reached(left);
}

const withoutCounter = (rule: string): string => rule.replace(/ -m nfacct --nfacct-name +\S+/, '');

/** Chains that differ between two nodes, each with the rules of both. Order between Services does not count. */
export function differences(allTheirs: SavedChains, ours: SavedChains): readonly string[] {
  const theirs = reached(allTheirs);
  const names = [...new Set([...theirs.keys(), ...ours.keys()])].toSorted();
  return names.flatMap((name) => {
    const [left, right] = [printChain(name, theirs), printChain(name, ours)];
    return left === right ? [] : [`${name}\n kube-proxy:\n${left}\n sluice:\n${right}`];
  });
}

function printChain(name: string, chains: SavedChains): string {
  if (!chains.has(name) && / KUBE-(?!PROXY-CANARY)/.test(name)) return '  no such chain';
  const left = undetectable.reduce((all, { without }) => without(name, all), chains.get(name) ?? []);
  return (perService.test(name) ? left.toSorted() : left).map((rule) => `  ${rule}`).join('\n');
}
