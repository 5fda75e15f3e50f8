import { isNodePort, type NftState, readFrontend, readFrontendKey, slotsOf, tableOptions } from '@sluice/netfilter';

/** A node port that is served on ::1. */
export interface ListenedPort {
  readonly port: number;
  /** `fd00:10:244::5 . 8080`, as often as its weight says. */
  readonly slots: readonly string[];
  readonly affinitySeconds: number | undefined;
}

/**
 * The TCP node ports that `sluiced` serves on ::1, in the order of the state: those with an endpoint, with policy Local one of the node. These
 * are the endpoints of kube-proxy's listener (`syncProxyRules` in `pkg/proxy/nftables`).
 * @returns none where the table of the state leaves nothing to a listener
 */
export function listenedPorts({ settings, frontends }: NftState): readonly ListenedPort[] {
  if (tableOptions(settings).localhostListener !== true) return [];
  return [...frontends].flatMap(([key, lines]): readonly ListenedPort[] => {
    const { family, protocol, address } = readFrontendKey(key);
    if (family !== 'ipv6' || protocol !== 'tcp' || !isNodePort({ family, address })) return [];
    const frontend = readFrontend(key, lines);
    const slots = slotsOf(frontend, frontend.outside === 'local' ? frontend.local : frontend.endpoints);
    const { port, affinitySeconds } = frontend;
    return slots.length === 0 ? [] : [{ port, slots, affinitySeconds }];
  });
}
