import { ownAddress, type ProfileFile } from '@sluice/bundle';
import {
  type Family,
  localhostAddress,
  localhostListenerAddress,
  modeFacts,
  parseCidr,
  plural,
} from '@sluice/netfilter';
import { covers } from './changes.ts';
import type { Violation } from './finding.ts';
import { nftOptionsOf } from '../bundle/nft-options.ts';
import { type ChangeContext, eachProfile, type PolicyContext } from './context.ts';

/** NODE_PORT_OPENED for a profile whose nodePortAddresses are widened. */
export function nodePortsWidened(context: ChangeContext): readonly Violation[] {
  const { services, base } = context;
  const entries = [...services.values()].flat();
  // Equal facts of several profiles are kept once, so all node ports count for each profile.
  const all = entries.flatMap(({ facts }) => facts.ports.map(({ nodePort }) => nodePort));
  const ports = new Set(all.filter((port) => port !== 0));
  return eachProfile(context, (profile, name) => {
    const before = base.view.profiles.get(name);
    const [old, updated] = [before ? addressesOf(before) : [], addressesOf(profile)];
    const isIn = (cidr: string, known: string): boolean =>
      known === cidr || (cidr === ownAddress ? known.endsWith('/0') : covers(known, cidr));
    // An empty list means every address.
    const isWider = updated.length === 0 || updated.some((cidr) => !old.some((known) => isIn(cidr, known)));
    if (old.length === 0 || !isWider || ports.size === 0) return [];
    const now = updated.length === 0 ? 'every address' : updated.join(', ');
    return {
      code: 'NODE_PORT_OPENED',
      message: `${plural(ports.size, 'node port')} will open on more addresses (${now} instead of ${old.join(', ')}); review required`,
      hint: 'Keep `nodePortAddresses` limited to the addresses that clients use',
      at: 'nodePortAddresses',
    };
  });
}

/** With the default of a mode in place of an empty list. */
const addressesOf = ({ mode, nodePortAddresses }: ProfileFile): readonly string[] =>
  nodePortAddresses.length === 0 && modeFacts[mode].nodePorts.onlyOnOwnAddress ? [ownAddress] : nodePortAddresses;

/** LOCALHOST_NODE_PORTS. Where a list of addresses has no loopback address, no mode serves one. */
export function localhostNodePorts(context: PolicyContext): readonly Violation[] {
  const { view, services } = context;
  const ports = new Set(
    [...services.values()].flat().flatMap(({ facts }) => facts.ports.map(({ nodePort }) => nodePort)),
  );
  ports.delete(0);
  if (ports.size === 0) return [];
  return eachProfile(context, ({ mode, families, nodePortAddresses: open }, name) => {
    if (modeFacts[mode].nodePorts.onLoopback) return [];
    const { localhost, localhostListener } = nftOptionsOf(view, name);
    const isServed = { ipv4: localhost === 'served', ipv6: localhostListener === true };
    const mayListen = modeFacts[mode].nodePorts.addresses === 'as-elements';
    const closed = families.filter(
      (family) =>
        !isServed[family] &&
        (family === 'ipv4' || mayListen) &&
        (open.length === 0 || open.some((one) => hasLoopback(one, family))),
    );
    if (closed.length === 0) return [];
    return {
      code: 'LOCALHOST_NODE_PORTS',
      message: `Cannot serve ${plural(ports.size, 'node port')} on ${closed.map((family) => localhostOf[family]).join(' and ')}: ${localhost === undefined ? `mode ${mode} has no such rules` : 'the rules reject them'}`,
      hint: mayListen
        ? 'Set featureGates: {KubeProxyNFTablesLocalhostNodePorts: true} and nodePortAddresses: [primary, localhost], or let clients on the node use its own address or the ClusterIP'
        : 'Let clients on the node use its own address or the ClusterIP',
      at: 'mode:',
    };
  });
}

const localhostOf = { ipv4: localhostAddress, ipv6: localhostListenerAddress } as const;
const loopback = { ipv4: '127.0.0.0/8', ipv6: '::1/128' } as const;

/** Whether a network has loopback addresses of a family. */
const hasLoopback = (text: string, family: Family): boolean =>
  parseCidr(text)?.family === family && (covers(loopback[family], text) || covers(text, loopback[family]));
