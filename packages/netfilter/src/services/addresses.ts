import { readFrontend } from '../nftables/frontend.ts';
import { setName } from '../rules/sets.ts';
import { families } from '../family.ts';
import type { IpvsState } from '../virtual/values.ts';

/** The addresses that the lines of one chain, or of one frontend of mode nftables, name. */
export interface AddressReader {
  /** Of the ClusterIPs whose packets they send to endpoints; one that several lines name is there as often. */
  readonly clusterIPs: (key: string, lines: readonly string[]) => readonly string[];
  /** Of the endpoints that they send packets to. */
  readonly endpoints: (key: string, lines: readonly string[]) => readonly string[];
}

/** Of chains of table nat. The rules of other frontends than ClusterIPs lead to `EXT` or `FW`. */
export const addressesOfChains: AddressReader = {
  clusterIPs: (_chain, rules) =>
    rules.flatMap((rule) => {
      const [, address] = / -d (\S+?)\/(?:32|128) .*-j (?:KUBE|SLU)-SV[CL]-\S+$/.exec(rule) ?? [];
      return address === undefined ? [] : [address];
    }),
  endpoints: (_chain, rules) =>
    rules.flatMap((rule) => {
      const [, address] = / --to-destination \[?([^\s\]]+?)\]?:\d+(?: |$)/.exec(rule) ?? [];
      return address === undefined ? [] : [address];
    }),
};

/** Of the frontends of mode nftables. */
export const addressesOfFrontends: AddressReader = {
  clusterIPs: (key, lines) => {
    const { isClusterIP, address } = readFrontend(key, lines);
    return isClusterIP ? [address] : [];
  },
  endpoints: (key, lines) => {
    const { endpoints, local } = readFrontend(key, lines);
    const all = local.length === 0 ? endpoints : new Set([...endpoints, ...local]);
    return Array.from(all, (one) => one.slice(0, one.indexOf(' ')));
  },
};

/** Of virtual servers, which have no lines. */
export const addressesOfServers = {
  clusterIPs: ({ sets }: IpvsState): readonly string[] =>
    families.flatMap((family) =>
      [...(sets.get(setName('KUBE-CLUSTER-IP', family))?.entries ?? [])].map((one) => one.slice(0, one.indexOf(','))),
    ),
  endpoints: ({ virtualServers }: IpvsState): readonly string[] =>
    [...virtualServers.values()].flatMap(({ real }) => [...real.values()].map(({ address }) => address)),
} as const;
