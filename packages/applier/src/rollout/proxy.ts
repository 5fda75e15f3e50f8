import type { Problem } from '@sluice/bundle';
import { kubeProxyState } from '../ipvs/strangers.ts';
import type { NodeIpvs } from '../ipvs/values.ts';
import type { Kernel, Refusal } from './ports.ts';

/**
 * What a kube-proxy in another mode than iptables left on a node that has no generation yet.
 *
 * State of mode ipvs can be taken over: the caller makes it part of generation 0. A table of mode nftables cannot: it translates
 * the same packets whatever the iptables rules say, so it must be gone first.
 *
 * @param takeOver what the node's config says
 * @param running processes of kube-proxy: what they keep writing is not taken over
 * @param excludeCIDRs of the profile that comes
 */
export async function lookForProxy(
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
        ? `kube-proxy still runs (process ${running.join(', ')}): stop it first, sluiced takes its state over then`
        : 'Stop kube-proxy and set `takeOver: kube-proxy` in sluiced.yaml, or remove what it left with `kube-proxy --cleanup`',
  };
}

function toolsMissing(): Problem {
  return {
    code: 'NODE_TOOL_MISSING',
    level: 'error',
    message: 'Cannot take over the state of a kube-proxy in mode ipvs: the node lacks ipvsadm, ipset or ip',
    hint: 'Install ipvsadm, ipset and iproute2, or remove what it left with `kube-proxy --cleanup`',
  };
}
