import type { TableName } from '../rulefile.ts';

type Names = Readonly<Record<TableName, ReadonlySet<string>>>;

/**
 * The chains that base files may declare: those that kube-proxy shares between all Services (`iptablesJumpChains` and
 * `syncProxyRules` in `pkg/proxy/iptables/proxier.go`). Others that start with KUBE- belong to network policy controllers
 * (KUBE-ROUTER-…, KUBE-POD-FW-…) or to the kubelet.
 */
export const baseChains: Names = {
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

/** The base chains that the file of a Service may append to: from these its traffic comes, the others see everybody's. */
export const dispatchChains: Names = {
  filter: new Set(['KUBE-SERVICES', 'KUBE-EXTERNAL-SERVICES', 'KUBE-NODEPORTS', 'KUBE-PROXY-FIREWALL']),
  nat: new Set(['KUBE-SERVICES', 'KUBE-NODEPORTS']),
};

/** The base chains that the file of a Service may jump to. */
export const calledChains: Names = { filter: new Set(), nat: new Set(['KUBE-MARK-MASQ']) };

const serviceChainForm = /^KUBE-(?:SVC|SVL|EXT|FW|SEP)-[A-Z2-7]{16}$/;

/** Whether a name is one that kube-proxy gives to the chains of one Service port or endpoint. */
export function isServiceChain(name: string): boolean {
  return serviceChainForm.test(name);
}
