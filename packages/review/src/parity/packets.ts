import type { Observation } from '@sluice/bundle';
import { matchesInterface } from '@sluice/netfilter';
import { loopback } from '../flows/destinations.ts';
import type { Destination, FlowOutcome, FlowSource } from '../flows/flow.ts';
import type { FlowRow } from '../flows/flows.ts';
import type { ObservedNode } from '../observed/node.ts';
import type { Gap } from './gaps.ts';

/** Which packets a node can have, and what of a comparison they are. */

/**
 * Whether the kernel drops packets of a source before any rule: from or to a loopback address by an interface that is none. Of IPv4 without
 * `route_localnet` (`ip_route_input_slow`); of IPv6 always, as from addresses of IPv4 in those of IPv6 (`ip6_rcv_core`).
 */
export const isMartian = (
  { address, in: incoming }: FlowSource,
  destination: string,
  { routesLoopback }: ObservedNode,
): boolean =>
  incoming !== undefined &&
  incoming !== 'lo' &&
  (address === loopback.ipv6 ||
    address.startsWith('::ffff:') ||
    ([address, destination].some((one) => one.startsWith('127.')) && routesLoopback === false));

/**
 * The interfaces by which packets can arrive, of those that rules ask for: of a prefix, `cali+`, one that exists and that no rule names.
 * @param known none: they were not observed, and an example of a prefix is tried
 */
export function existing(asked: ReadonlySet<string>, known: readonly string[]): readonly string[] {
  const names = [...asked].toSorted();
  if (known.length === 0) return names.map((name) => name.replace(/\+$/, '0'));
  const found = names.flatMap((name) =>
    known.filter((one) => matchesInterface(name, one) && (name === one || !asked.has(one))).slice(0, 1),
  );
  return [...new Set(found)];
}

/** An interface that a rule asks for, where it is not known whether the node has it. */
export const unknownInterface = ({ network, in: name = '' }: FlowSource, { missing }: Observation): Gap | undefined =>
  network?.startsWith('by ') === true && missing.some(({ part }) => part === 'addresses')
    ? {
        rule: undefined,
        what: `interface ${name}`,
        why: 'a rule asks for it, and the interfaces of the node are not known: save `ip addr`',
      }
    : undefined;

/** The kernel drops what arrives by a wire with an address of the node as its source. */
export const isOwnByWire = ({ in: incoming, address }: FlowSource, { addresses }: ObservedNode): boolean =>
  incoming !== undefined && addresses.includes(address);

/** All addresses of a node port, and localhost, are one. */
export const portOf = ({ kind, address, port, protocol }: Destination): string =>
  `${kind === 'node-port' || kind === 'localhost' ? '' : address} ${port}/${protocol}`;
export const isRefused = ({ branches }: FlowOutcome): boolean =>
  branches.some(({ verdict }) => verdict === 'drop' || verdict === 'reject');
export const isPassed = ({ branches }: FlowOutcome): boolean => branches.every(({ verdict }) => verdict === 'pass');

/** A source whose packets arrive on interfaces that observed rules ask for. */
export const byInterfaces = (
  { network, ...source }: FlowSource,
  interfaces: readonly string[],
): readonly FlowSource[] =>
  source.class === 'node' || source.class === 'endpoint' || network?.startsWith('by ') === true
    ? []
    : interfaces.map((name) => {
        const from = network === undefined ? '' : ` from ${network}`;
        return { ...source, network: `by ${name}${from}`, in: name };
      });

/** Of IPv6 in mode nftables. */
export const listener: Gap = {
  rule: undefined,
  what: 'node ports on ::1',
  why: 'sluiced serves them by a listener, which no rule shows: `curl` on the node does',
};

/** What `sluiced` serves by a listener: its table, which was observed, has no rule for it. */
export const unseenListener = (
  { nftTables }: Observation,
  { family, destination }: Pick<FlowRow, 'family' | 'destination'>,
  observed: FlowOutcome,
  desired: FlowOutcome,
): Gap | undefined =>
  destination.kind === 'localhost' &&
  family === 'ipv6' &&
  nftTables.some(({ name }) => name === 'sluice') &&
  isPassed(observed) &&
  desired.branches.every(({ verdict }) => verdict === 'dnat')
    ? listener
    : undefined;
