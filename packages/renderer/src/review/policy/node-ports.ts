import { ownAddress, type ProfileFile, profileFile } from '@sluice/bundle';
import { modeFacts, parseCidr, plural } from '@sluice/netfilter';
import { covers } from './changes.ts';
import type { Violation } from './finding.ts';
import { lineOf } from '../facts/service-entries.ts';
import { nftOptionsOf } from '../bundle/nft-options.ts';
import type { ChangeContext, PolicyContext } from './context.ts';

/** NODE_PORT_OPENED for a profile whose nodePortAddresses are widened. */
export function nodePortsWidened({ view, services, base }: ChangeContext): readonly Violation[] {
  const entries = [...services.values()].flat();
  // Equal facts of several profiles are kept once, so all node ports count for each profile.
  const all = entries.flatMap(({ facts }) => facts.ports.map(({ nodePort }) => nodePort));
  const ports = new Set(all.filter((port) => port !== 0));
  return [...view.profiles].flatMap(([name, profile]) => {
    const before = base.view.profiles.get(name);
    const [old, fresh] = [before ? addressesOf(before) : [], addressesOf(profile)];
    const isIn = (cidr: string, known: string): boolean =>
      known === cidr || (cidr === ownAddress ? known.endsWith('/0') : covers(known, cidr));
    // An empty list means every address.
    const isWider = fresh.length === 0 || fresh.some((cidr) => !old.some((known) => isIn(cidr, known)));
    if (old.length === 0 || !isWider || ports.size === 0) return [];
    const path = profileFile(name);
    const now = fresh.length === 0 ? 'every address' : fresh.join(', ');
    return [
      {
        code: 'NODE_PORT_OPENED',
        subject: `profile ${name}`,
        message: `${plural(ports.size, 'node port')} will open on more addresses (${now} instead of ${old.join(', ')}); review required`,
        hint: 'Keep `nodePortAddresses` limited to the addresses that clients use',
        path,
        line: lineOf(view, path, 'nodePortAddresses'),
      },
    ];
  });
}

/** With the default of a mode in place of an empty list. */
const addressesOf = ({ mode, nodePortAddresses }: ProfileFile): readonly string[] =>
  nodePortAddresses.length === 0 && modeFacts[mode].nodePorts.onlyOnOwnAddress ? [ownAddress] : nodePortAddresses;

/** LOCALHOST_NODE_PORTS. Where a list of addresses has no loopback address, no mode serves one. */
export function localhostNodePorts({ view, services }: PolicyContext): readonly Violation[] {
  const ports = new Set(
    [...services.values()].flat().flatMap(({ facts }) => facts.ports.map(({ nodePort }) => nodePort)),
  );
  ports.delete(0);
  if (ports.size === 0) return [];
  return [...view.profiles].flatMap(([name, { mode, nodePortAddresses: open }]) => {
    if (modeFacts[mode].nodePorts.onLoopback || (open.length > 0 && !open.some(hasLoopback))) return [];
    const table = nftOptionsOf(view, name).localhost;
    if (table === 'served') return [];
    const path = profileFile(name);
    return [
      {
        code: 'LOCALHOST_NODE_PORTS',
        subject: `profile ${name}`,
        message: `Cannot serve ${plural(ports.size, 'node port')} on 127.0.0.1: ${table === 'refused' ? 'the rules reject them' : `mode ${mode} has no such rules`}`,
        hint:
          modeFacts[mode].nodePorts.addresses === 'as-elements'
            ? 'Set featureGates: {KubeProxyNFTablesLocalhostNodePorts: true} and nodePortAddresses: [primary, localhost], or let clients on the node use its own address or the ClusterIP'
            : 'Let clients on the node use its own address or the ClusterIP',
        path,
        line: lineOf(view, path, 'mode:'),
      },
    ];
  });
}

/** Whether a network has addresses of 127.0.0.0/8. IPv6 has no node ports on loopback in any mode. */
function hasLoopback(text: string): boolean {
  const network = parseCidr(text);
  return network?.family === 'ipv4' && (covers('127.0.0.0/8', text) || covers(text, '127.0.0.0/8'));
}
