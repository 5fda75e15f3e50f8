import type { Problem } from '@sluice/netfilter';
import { kubeProxyState } from '../ipvs/kube-proxy-state.ts';
import type { NodeIpvs } from '../ipvs/values.ts';
import type { Kernel } from '../ports/kernel.ts';
import type { Refusal } from '../ports/refusal.ts';

/**
 * Finds the state of a kube-proxy in mode ipvs or nftables, on a node that has no generation yet.
 *
 * State of mode ipvs can be taken over: the caller makes it part of generation 0. A table of mode nftables cannot: it translates
 * the same packets independently of the iptables rules, so it must be removed first.
 *
 * @param takeOver the setting of the node's config
 * @param running process ids of kube-proxy: its state is not taken over while it runs
 * @param excludeCIDRs of the new profile
 */
export async function findProxy(
  kernel: Pick<Kernel, 'proxyTraces' | 'ipvs'>,
  takeOver: boolean,
  running: readonly number[],
  excludeCIDRs: readonly string[],
): Promise<{ readonly ipvs?: NodeIpvs } | Refusal> {
  const traces = await kernel.proxyTraces();
  if (traces.nftables) return { problems: [nftablesLeft()] };
  if (!traces.ipvs) return {};
  if (!takeOver || running.length > 0) return { problems: [ipvsLeft(takeOver ? running : [])] };
  if (!kernel.ipvs) return { problems: [toolsMissing()] };
  const ipvs = kubeProxyState(await kernel.ipvs.observe(), excludeCIDRs);
  return ipvs ? { ipvs } : {};
}

function nftablesLeft(): Problem {
  return {
    code: 'NODE_CHAINS_NOT_OURS',
    level: 'error',
    message:
      'Cannot apply the bundle: a kube-proxy in mode nftables left its table kube-proxy, which translates the same packets',
    hint: 'Stop kube-proxy and remove its tables: `kube-proxy --cleanup`, or `nft delete table ip kube-proxy; nft delete table ip6 kube-proxy`',
  };
}

function ipvsLeft(running: readonly number[]): Problem {
  return {
    code: 'NODE_SERVERS_NOT_OURS',
    level: 'error',
    message:
      'Cannot apply the bundle: a kube-proxy in mode ipvs left its interface kube-ipvs0, with addresses and virtual servers',
    hint:
      running.length > 0
        ? `Stop kube-proxy (process ${running.join(', ')}) first; sluiced then takes over its state`
        : 'Stop kube-proxy and set `takeOver: kube-proxy` in sluiced.yaml, or remove its state with `kube-proxy --cleanup`',
  };
}

function toolsMissing(): Problem {
  return {
    code: 'NODE_TOOL_MISSING',
    level: 'error',
    message: 'Cannot take over the state of a kube-proxy in mode ipvs: the node lacks ipvsadm, ipset or ip',
    hint: 'Install ipvsadm, ipset and iproute2, or remove its state with `kube-proxy --cleanup`',
  };
}
