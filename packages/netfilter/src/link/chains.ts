import type { Mode } from '../rules/mode-facts.ts';
import type { TableName } from '../family.ts';
import { targetOf } from '../rules/words.ts';
import { sharedChains } from './shared.ts';

type Names = Readonly<Record<TableName, ReadonlySet<string>>>;

/**
 * The chains that base files may declare: those that kube-proxy shares between all Services (`iptablesJumpChains` and
 * `syncProxyRules` in `pkg/proxy/iptables/proxier.go`). Other chains that start with KUBE- belong to network policy controllers
 * (KUBE-ROUTER-…, KUBE-POD-FW-…) or to the kubelet.
 */
const baseChains: Names = {
  filter: new Set([
    'KUBE-SERVICES',
    'KUBE-EXTERNAL-SERVICES',
    'KUBE-FORWARD',
    'KUBE-NODEPORTS',
    'KUBE-PROXY-FIREWALL',
    'KUBE-FIREWALL',
  ]),
  nat: new Set(['KUBE-SERVICES', 'KUBE-NODEPORTS', 'KUBE-POSTROUTING', 'KUBE-MARK-MASQ']),
};

/** nat's chain with all Services of a kube-proxy in mode iptables or ipvs, and of Sluice in layout `flat` and mode ipvs. */
export const servicesChain = 'KUBE-SERVICES';

/** The chain that marks packets for masquerading: CNI plugins jump to it. */
export const markingChain = 'KUBE-MARK-MASQ';

/** Whether a filter table is one of mode ipvs, which has this chain in each family. */
export const isFilterOfIpvs = ({ chains }: { readonly chains: ReadonlyMap<string, unknown> }): boolean =>
  chains.has('KUBE-IPVS-FILTER');

/** The rules of `servicesChain` that lead to node ports, in mode iptables and in mode ipvs. */
export const nodePortJumps = (rules: readonly string[]): readonly string[] =>
  rules.filter((rule) => ['KUBE-NODEPORTS', 'KUBE-NODE-PORT'].includes(targetOf(rule) ?? ''));

/** The base chains that the file of a Service may append to: those that dispatch to Services. */
export const dispatchChains: Names = {
  filter: new Set(['KUBE-SERVICES', 'KUBE-EXTERNAL-SERVICES', 'KUBE-NODEPORTS', 'KUBE-PROXY-FIREWALL']),
  nat: new Set(['KUBE-SERVICES', 'KUBE-NODEPORTS']),
};

/** The base chains that the file of a Service may jump to. */
const calledChains: Names = { filter: new Set(), nat: new Set(['KUBE-MARK-MASQ']) };

/** The base chains of mode ipvs (`iptablesChains` in `pkg/proxy/ipvs/proxier.go`). */
const ipvsChains: Names = {
  filter: new Set([
    'KUBE-FORWARD',
    'KUBE-NODE-PORT',
    'KUBE-PROXY-FIREWALL',
    'KUBE-SOURCE-RANGES-FIREWALL',
    'KUBE-IPVS-FILTER',
    'KUBE-IPVS-OUT-FILTER',
  ]),
  nat: new Set(['KUBE-SERVICES', 'KUBE-POSTROUTING', 'KUBE-NODE-PORT', 'KUBE-LOAD-BALANCER', 'KUBE-MARK-MASQ']),
};

const noChains: Names = { filter: new Set(), nat: new Set() };

/** By mode: what base files may declare, what the file of a Service may append to, and what it may jump to. */
export const chainsOfMode = {
  iptables: { base: baseChains, dispatch: dispatchChains, called: calledChains },
  // In this mode all rules but one are independent of Services.
  ipvs: {
    base: ipvsChains,
    dispatch: { filter: new Set(['KUBE-IPVS-OUT-FILTER']), nat: new Set() },
    called: { filter: new Set(), nat: new Set() },
  },
  nftables: { base: noChains, dispatch: noChains, called: noChains },
} as const satisfies Record<Mode, Readonly<Record<'base' | 'dispatch' | 'called', Names>>>;

const serviceChainForm = /^KUBE-(?:SVC|SVL|EXT|FW|SEP)-[A-Z2-7]{16}$/;

/** Chains of kube-proxy that no bundle has: its canary for flushed tables, and a chain that versions up to 1.23 made. */
const otherForms = /^KUBE-(?:PROXY-CANARY|XLB-[A-Z2-7]{16})$/;

/**
 * Whether kube-proxy gives a chain this name, in mode iptables or ipvs. Names that it shares with the kubelet, and those of network
 * policy controllers (KUBE-ROUTER-…, KUBE-POD-FW-…), are not its own.
 */
export function isKubeProxyChain(name: string): boolean {
  if (isServiceChain(name) || otherForms.test(name)) return true;
  const isBase = Object.values(chainsOfMode).some(({ base }) => base.filter.has(name) || base.nat.has(name));
  return isBase && !sharedChains.has(name);
}

/** Whether kube-proxy gives this name to the chain of one Service port or endpoint. */
export function isServiceChain(name: string): boolean {
  return serviceChainForm.test(name);
}
