import {
  atLocalhost,
  type ExaminedTarget,
  isLoopback,
  modeFacts,
  parseAddress,
  printEndpoint,
  tableOptions,
} from '@sluice/netfilter';
import type { DesiredFacts, Frontend, InterfaceFacts } from './facts.ts';

/** The frontends that a target names. A node port answers on each address of the node, on loopback addresses where rules serve it. */
export function frontendsOf(
  target: ExaminedTarget,
  desired: Pick<DesiredFacts, 'frontends' | 'mode' | 'state'>,
  interfaces: readonly InterfaceFacts[],
): readonly Frontend[] {
  const { frontends } = desired;
  if (target.kind === 'all') return frontends;
  if (target.kind === 'service') {
    const name = target.port === undefined ? undefined : `${target.service}:${target.port}`;
    return frontends.filter(({ service }) =>
      name === undefined ? service === target.service || service?.startsWith(`${target.service}:`) : service === name,
    );
  }
  const own = new Set(interfaces.flatMap(({ addresses }) => addresses));
  return frontends.filter(
    (one) =>
      (one.address === target.address ||
        (one.address === undefined &&
          own.has(target.address) &&
          isSameFamily(one, target.address) &&
          !['left', 'refused'].includes(atLoopback(target.address, one.protocol, desired) ?? ''))) &&
      (target.port === undefined || one.port === target.port),
  );
}

/** @returns what becomes of a node port there; undefined for other addresses, and where rules of iptables decide */
export function atLoopback(
  address: string,
  protocol: string,
  { mode, state }: Pick<DesiredFacts, 'mode' | 'state'>,
): ReturnType<typeof atLocalhost> | undefined {
  const parsed = parseAddress(address);
  if (!parsed || !isLoopback(parsed) || modeFacts[mode].nodePorts.onLoopback) return undefined;
  return atLocalhost(tableOptions(state.nft?.settings ?? []), parsed.text, protocol);
}

const isSameFamily = ({ family }: Frontend, address: string): boolean => (family === 'ipv6') === address.includes(':');

/** What identifies a frontend. */
export type FrontendPlace = Pick<Frontend, 'address' | 'port' | 'protocol'>;

/** `10.96.0.10:80/tcp`, of a node port `node port 30080/tcp`. */
export const printFrontendOf = ({ address, port, protocol }: FrontendPlace): string =>
  `${address === undefined ? `node port ${port}` : printEndpoint(address, port)}/${protocol}`;
