import type { BundleDiff } from '../diff/diff.ts';
import type { ServiceChange } from '../diff/service-changes.ts';
import type { Branch, Destination, FlowOutcome, NodeGroup, FlowSource, TrafficFlow } from '../flows/flow.ts';
import { printEndpoint, plural, shortList } from '@sluice/netfilter';
import { portName } from '../facts/facts.ts';

// Texts that reports of all formats share.

/** `10.244.1.5:8080 50 %, 10.244.2.5:8080 50 %`, masqueraded ones marked; one list when all shares are equal. */
export function outcomeText({ branches, affinity, scheduler }: Omit<FlowOutcome, 'key'>): string {
  const equal = branches.every(({ share }) => Math.abs(share - branches[0]!.share) < 1e-6);
  const masked = branches.every(({ masquerade, to }) => masquerade && to !== undefined);
  const shown = branches.map((branch) => branchText(branch, { share: !equal, masquerade: !masked }));
  const list = shown.join(equal ? ' | ' : ', ');
  const how = [
    affinity === undefined ? '' : `affinity ${affinity}`,
    scheduler === undefined ? '' : `scheduler ${scheduler}`,
  ].filter(Boolean);
  return `${masked ? `masquerade ${list}` : list}${how.length === 0 ? '' : ` (${how.join(', ')})`}`;
}

const verdicts = {
  dnat: '',
  accept: 'ACCEPT',
  pass: 'no Service matches',
  reject: 'REJECT',
  drop: 'DROP',
} as const satisfies Record<Branch['verdict'], string>;

/** Where the connections of a branch end: `10.244.1.5:8080`, `REJECT with tcp-reset`. */
export const endText = (branch: Branch): string =>
  branchText({ ...branch, masquerade: false }, { share: false, masquerade: false });

function branchText(
  { verdict, to, masquerade, share, reject }: Branch,
  show: { readonly share: boolean; readonly masquerade: boolean },
): string {
  const percent = show.share ? ` ${percentText(share)}` : '';
  if (to === undefined) {
    const how = `${reject === undefined ? '' : ` with ${reject}`}${masquerade ? ', masqueraded' : ''}`;
    return `${verdicts[verdict]}${how}${percent}`;
  }
  return `${masquerade && show.masquerade ? 'masquerade ' : ''}${to}${percent}`;
}

/** `33.3 %` */
export function percentText(share: number): string {
  const percent = Number((share * 100).toFixed(4));
  return `${percent} %`;
}

/** Indented lines, up to `max` of them. */
export function indentedList(lines: readonly string[], max: number): string {
  const shown = lines.slice(0, max).map((line) => `    ${line}\n`);
  const more = lines.length > max ? `    … and ${lines.length - max} more: -o json has all\n` : '';
  return `${shown.join('')}${more}`;
}

const classes = {
  'pod-here': 'pods of the node',
  'pod-elsewhere': 'other pods',
  node: 'the node itself',
  outside: 'outside',
  endpoint: 'endpoint',
} as const satisfies Record<FlowSource['class'], string>;

/** `pods of the node`, `outside 198.51.100.0/24` */
export function sourceText(source: FlowSource): string {
  return source.network === undefined ? classes[source.class] : `${classes[source.class]} ${source.network}`;
}

/** `10.96.0.10:80/tcp`, `node port 30080/tcp`, `localhost:30080/tcp` */
export function destinationText({ kind, address, port, protocol }: Destination): string {
  if (kind === 'node-port') return `node port ${port}/${protocol}`;
  if (kind === 'localhost') return `localhost:${port}/${protocol}`;
  return `${printEndpoint(address, port)}/${protocol}`;
}

/** `node-a, node-b` or `node-a, node-b and 12 more nodes of profile default` */
export function nodesText({ nodes, profile }: NodeGroup): string {
  if (nodes.length <= 3) return nodes.join(', ');
  return `${shortList(nodes, 2)} nodes of profile ${profile}`;
}

/** The command that traces the example packet of a flow. */
export const packetText = ({ packet, nodes }: Pick<TrafficFlow, 'packet' | 'nodes'>): string =>
  `sluice trace --node ${nodes.nodes[0]} --from ${packet.source} --to ${printEndpoint(packet.destination, packet.port)}/${packet.protocol}`;

/** A summary in one line: `3 Services change, 1 node port opens on 14 nodes, no port loses its last endpoint`. */
export function verdictText(diff: BundleDiff): string {
  const counts = countsText(diff);
  return counts === '' ? 'Nothing changes' : `${counts}, ${emptiedText(diff)}`;
}

/** The counts of a verdict alone; empty when nothing changes. */
export function countsText(diff: BundleDiff): string {
  const names = (kind: ServiceChange['kind']): number =>
    new Set(diff.services.filter((change) => change.kind === kind).map(({ service }) => service)).size;
  const [added, removed, changed] = [names('added'), names('removed'), names('changed')];
  const parts = [
    added === 0 ? '' : `${plural(added, 'Service')} added`,
    removed === 0 ? '' : `${plural(removed, 'Service')} removed`,
    changed === 0 ? '' : `${plural(changed, 'Service')} ${changed === 1 ? 'changes' : 'change'}`,
    nodePortsText(diff),
    ...diff.profiles.flatMap(({ profile, nodes, what, new: updated = '' }) =>
      what === 'mode'
        ? [`profile ${profile} changes to mode ${updated.split(',')[0]} on ${plural(nodes, 'node')}`]
        : [],
    ),
    settingsText(diff),
    diff.nodes.added.length === 0 ? '' : `${plural(diff.nodes.added.length, 'node')} added`,
    diff.nodes.removed.length === 0 ? '' : `${plural(diff.nodes.removed.length, 'node')} removed`,
    diff.services.length === 0 && diff.flows.length > 0 ? `${plural(diff.flows.length, 'flow')} change` : '',
  ];
  return parts.filter(Boolean).join(', ');
}

/** Settings of a profile that changes its mode are left out: they follow from the mode. */
function settingsText({ settings, profiles }: BundleDiff): string {
  const moved = profiles.filter(({ what }) => what === 'mode').map(({ profile }) => `profiles/${profile}/`);
  const count = settings.filter(({ file }) => !moved.some((folder) => file.startsWith(folder))).length;
  return count === 0 ? '' : `settings change in ${plural(count, 'file')}`;
}

function nodePortsText({ services }: BundleDiff): string {
  const count = (side: 'old' | 'new', other: 'old' | 'new'): { ports: Set<string>; nodes: number } => {
    const found = services.filter(({ changes }) =>
      changes.some(({ what, [side]: own }) => what === 'node-port' && own),
    );
    const ports = found.flatMap(({ changes }) =>
      changes.flatMap((change) =>
        change.what === 'node-port' && change[side] !== undefined && change[side] !== change[other]
          ? [`${change.port?.split('/').at(-1)} ${change[side]}`]
          : [],
      ),
    );
    return { ports: new Set(ports), nodes: Math.max(0, ...found.map(({ nodes }) => nodes)) };
  };
  const [opened, closed] = [count('new', 'old'), count('old', 'new')];
  const text = ({ ports, nodes }: { ports: Set<string>; nodes: number }, verb: string): string =>
    ports.size === 0
      ? ''
      : `${plural(ports.size, 'node port')} ${verb}${ports.size === 1 ? 's' : ''} on ${plural(nodes, 'node')}`;
  return [text(opened, 'open'), text(closed, 'close')].filter(Boolean).join(', ');
}

function emptiedText({ services }: BundleDiff): string {
  const emptied = [...new Set(services.flatMap(({ emptied: ports }) => ports))];
  if (emptied.length === 0) return 'no port loses its last endpoint';
  const ports = emptied.map((key) => portName({ key }));
  return `${shortList(ports, 3)} ${emptied.length === 1 ? 'loses its' : 'lose their'} last endpoint`;
}
