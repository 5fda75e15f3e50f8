import { shortList } from '@sluice/netfilter';
import { failingProbes, type FleetRow, type FleetStatus, type NodeRolloutState } from './fleet.ts';

/** Nodes that are named; more are counted. */
const namedMax = 3;

const steps = {
  held: (nodes) => `free ${nodes}: sluiced status says there why automatic work has stopped`,
  'rolled-back': (nodes) => `find out why the release failed on ${nodes}, and make one that works there`,
  partial: (nodes) => `bring another version of the Services that ${nodes} left out`,
  refused: (nodes) => `find out why ${nodes} refused the release, and make one that works there`,
  'by-hand': (nodes) => `give ${nodes} the release again with sluiced apply, once an operator agrees`,
  silent: (nodes) => `fetch receipts of ${nodes}, or look whether sluiced runs there`,
  behind: (nodes) => `wait for receipts of ${nodes}, or read sluiced status there`,
} as const satisfies Partial<Record<NodeRolloutState, (nodes: string) => string>>;

/** What to do next about a fleet, in one line: the most urgent thing alone. Of a closed wave nodes count that failed. */
export function nextStep({ rows, waves }: Pick<FleetStatus, 'rows' | 'waves'>): string {
  if (rows.length === 0) return 'add the keys of nodes to allowed_receipts';
  const isAwaited = ({ wave }: FleetRow): boolean => wave === null || waves[wave - 1]?.isOpen === true;
  const urgent = rows.filter((row) => (row.state === 'silent' || row.state === 'behind' ? isAwaited(row) : true));
  for (const [state, step] of Object.entries(steps)) {
    const found = urgent.filter((row) => row.state === state);
    if (found.length > 0) return step(namesOf(found));
  }
  const failing = rows.filter((row) => failingProbes(row).length > 0);
  if (failing.length > 0) return `look at the probes of ${namesOf(failing)}: they failed before the release, too`;
  const closed = waves.findIndex(({ isOpen }) => !isOpen);
  if (closed >= 0) return `open wave ${closed + 1} (${waves[closed]?.name}) with sluice promote`;
  const drained = rows.filter(({ receipt }) => receipt?.draining !== undefined);
  return drained.length > 0 ? `end the drain of ${namesOf(drained)} once it is over: sluiced undrain` : 'nothing';
}

const namesOf = (rows: readonly FleetRow[]): string =>
  shortList(
    rows.map(({ node }) => node),
    namedMax,
  );
