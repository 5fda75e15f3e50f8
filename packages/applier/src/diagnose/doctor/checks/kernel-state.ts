import { type Finding, isTreeChain, objectOf, servicesChain, targetOf } from '@sluice/netfilter';
import { isTree } from '../../../ports/node-state.ts';
import type { DesiredFacts, Facts, SavedTable } from '../facts.ts';
import { removal } from '../meetings.ts';
import { translatesFirst } from '../packets.ts';

/** Desired against observed, and other writers of rules. */
export function* kernelState(desired: DesiredFacts, facts: Facts): Iterable<Finding> {
  yield* differenceChecks(desired, facts);
  yield* proxyChecks(desired, facts);
}

function* differenceChecks(desired: DesiredFacts, facts: Facts): Iterable<Finding> {
  const { differences = [], sluiced } = facts;
  // During a change the kernel holds more than the active generation.
  if (sluiced.open !== undefined) return;
  const sysctls = differences.filter((one) => /sysctl|hash/i.test(one));
  const hidden = [...hiddenTables(desired, facts), ...unprintedTables(facts)];
  const unprinted = differences.filter((one) => hidden.some(({ table }) => one.startsWith(`${table}: `)));
  const rules = differences.filter((one) => !sysctls.includes(one) && !unprinted.includes(one));
  const fix = sluiced.isDaemonRunning ? 'journalctl -u sluiced -n 50' : 'systemctl start sluiced';
  if (rules.length > 0)
    yield {
      code: 'RULES_DIFFER',
      certainty: 'certain',
      evidence: [`mode ${desired.mode}: ${rules.length} steps would repair it`, ...rules],
      fix,
    };
  else if (unprinted.length > 0)
    yield {
      code: 'TABLE_NOT_PRINTED',
      certainty: 'likely',
      evidence: [
        ...hidden.map(
          ({ table, chain, rule = `chain ${chain}` }) =>
            `iptables-nft-save prints nothing of ${table} beside nft ${rule}`,
        ),
        'whether rules of Sluice are missing there cannot be known; give the program that wrote it a table of its own',
      ],
      fix: hidden[0]?.chain ? `nft -a list chain ${hidden[0].chain}` : 'nft -a list ruleset',
    };
  if (sysctls.length > 0) yield { code: 'SYSCTL_DIFFERS', certainty: 'certain', evidence: sysctls, fix };
}

interface HiddenTable {
  readonly table: string;
  readonly chain: string;
  /** Left out: the chain itself. */
  readonly rule?: string;
}

/** The same for rules that another program added to chains of iptables. */
const unprintedTables = ({ unprinted = [] }: Facts): readonly HiddenTable[] =>
  unprinted.flatMap(({ table, rules }) =>
    rules.length === 0
      ? { table, chain: '', rule: 'rules of another program' }
      : rules.map(({ chain, rule }) => ({ table, chain, rule: `rule ${rule}` })),
  );

/**
 * Tables of iptables in which another program has chains of nftables: iptables-nft-save prints none of their rules (`Table is incompatible,
 * use 'nft' tool`) where it has no form for one of them, so that all of Sluice's seem to be missing.
 */
function hiddenTables({ mode, store }: DesiredFacts, { tables = [], nftTables = [] }: Facts): readonly HiddenTable[] {
  if (mode === 'nftables' || store !== 'nft') return [];
  return nftTables.flatMap(({ family, name, objects }) => {
    const own = family === 'ip' ? 'ipv4' : 'ipv6';
    const base = objects.map((object) => objectOf(object['chain'])).find(({ hook }) => hook !== undefined);
    const isOfIptables = family !== 'inet' && (name === 'filter' || name === 'nat');
    const isPrinted = tables.some((one) => one.store === 'nft' && one.family === own && one.table === name);
    if (!isOfIptables || base === undefined || isPrinted) return [];
    return [{ table: `${own} ${name}`, chain: `${family} ${name} ${String(base['name'])}` }];
  });
}

function* proxyChecks(
  desired: DesiredFacts,
  { kubeProxies = [], tables = [], nftTables = [], interfaces = [] }: Facts,
): Iterable<Finding> {
  const jumpsIn = (table: SavedTable): readonly Leftover[] =>
    proxyJumps(table, desired).map((rule) => ({ evidence: placed(table, rule), fix: removal(table, rule) }));
  const evidenceOf = (all: readonly Leftover[]): readonly string[] => all.map(({ evidence }) => evidence);
  if (kubeProxies.length > 0)
    yield {
      code: 'KUBE_PROXY_RUNNING',
      // Beside layout tree a kube-proxy may run for a trial, as long as it is not restarted.
      certainty: isTree(desired.state) ? 'likely' : 'certain',
      evidence: [`process ${kubeProxies.join(', ')} is kube-proxy`, ...evidenceOf(tables.flatMap(jumpsIn))],
      fix: 'kubectl -n kube-system get daemonset kube-proxy',
    };
  // `kube-proxy --cleanup` also empties chains and virtual servers that Sluice has under kube-proxy's names.
  // Sluice's table of mode nftables translates before any chain of iptables: jumps there have no packets of its Services.
  const isFirst = translatesFirst(desired);
  const left: readonly Leftover[] = [
    ...nftTables.flatMap(({ family, name }) =>
      name === 'kube-proxy'
        ? { evidence: `nft table ${family} kube-proxy`, fix: `nft delete table ${family} kube-proxy` }
        : [],
    ),
    ...interfaces.flatMap(({ name }) =>
      name === 'kube-ipvs0' && desired.mode !== 'ipvs'
        ? { evidence: 'interface kube-ipvs0', fix: 'ip link delete kube-ipvs0' }
        : [],
    ),
    ...tables.flatMap((table) => (table.store === desired.store && !isFirst ? jumpsIn(table) : [])),
  ];
  if (left[0])
    yield { code: 'KUBE_PROXY_LEFTOVERS', certainty: 'certain', evidence: evidenceOf(left), fix: left[0].fix };
  const harmless = isFirst ? tables.flatMap(jumpsIn) : [];
  if (harmless[0])
    yield {
      code: 'KUBE_PROXY_LEFTOVERS',
      certainty: 'note',
      evidence: [...evidenceOf(harmless), 'no packet of a Service takes them: mode nftables translates before'],
      fix: harmless[0].fix,
    };
  const other = tables
    .filter(({ store }) => store !== desired.store && !isFirst)
    .flatMap((table) => [...proxyJumps(table, desired), ...sluiceJumps(table)].map((rule) => placed(table, rule)));
  if (other.length > 0)
    yield {
      code: 'RULES_IN_BOTH_STORES',
      certainty: 'certain',
      evidence: other,
      fix: `sluiced backend ${desired.store}`,
    };
}

/** What a kube-proxy left, and a command that removes it. */
interface Leftover {
  readonly evidence: string;
  readonly fix: string;
}

/** Jumps to a kube-proxy's chains that come before Sluice's, or stand where Sluice has none, and lead somewhere. */
function proxyJumps(table: SavedTable, { store, state }: DesiredFacts): readonly string[] {
  const isOwnStore = table.store === store;
  const program = state.families[table.family];
  const own = isOwnStore && table.table === 'nat' ? program?.nat : undefined;
  if (own?.chains.has(servicesChain)) return [];
  return ['PREROUTING', 'OUTPUT'].flatMap((hook) => {
    if (table.table !== 'nat') return [];
    const rules = table.chains.get(hook)?.rules ?? [];
    const jump = rules.findIndex((rule) => targetOf(rule) === servicesChain);
    const first = rules.findIndex(leadsToSluice);
    const leads = (table.chains.get(servicesChain)?.rules.length ?? 0) > 0;
    const isEarly = jump >= 0 && (first < 0 || jump < first);
    return isEarly && leads ? rules.slice(jump, jump + 1) : [];
  });
}

const sluiceJumps = ({ chains }: SavedTable): readonly string[] =>
  [...chains.values()].flatMap(({ policy, rules }) => (policy === '-' ? [] : rules.filter(leadsToSluice)));

const placed = ({ family, store, table }: SavedTable, rule: string): string => `${family} ${store} ${table}: ${rule}`;

const leadsToSluice = (rule: string): boolean => isTreeChain(targetOf(rule) ?? '');
