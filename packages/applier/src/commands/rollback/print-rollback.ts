import { plural } from '@sluice/netfilter';
import type { RollbackPlan, RollbackTarget } from '../../control/protocol.ts';
import { printEndpointChanges } from '../../endpoints/endpoint-changes.ts';

/** How many Services a line names. */
const namedMax = 10;

/** The changes of a rollback, in lines for an operator. */
export function printRollback({ to, cancels, endpoints, services, stale, lines }: RollbackPlan): string {
  const title = `Roll back to generation ${to.generation} (${details(to)})`;
  const cancelled = cancels === null ? [] : [`version ${cancels.version}, on probation, is cancelled first`];
  if (!services) {
    const unknown = 'the active generation cannot be read, so the changes are not known';
    return [title, ...[...cancelled, unknown].map((line) => `  ${line}`), ''].join('\n');
  }
  const { removed, restored } = services;
  const all = [
    cancelled,
    removed.length === 0 ? [] : [`${plural(removed.length, 'Service')} removed: ${some(removed)}`],
    restored.length === 0
      ? []
      : [`${plural(restored.length, 'Service')} restored with old endpoints, which may be stale: ${some(restored)}`],
    stale.length === 0
      ? []
      : [
          `${endpoints === 'newest' ? 'the newest endpoints cannot be kept for' : 'old endpoints, which may be stale'}: ${printEndpointChanges(stale)}`,
        ],
    [`${lines} lines of rules change`],
  ];
  return [title, ...all.flat().map((line) => `  ${line}`), ''].join('\n');
}

function details({ version, confirmedAt, serial }: RollbackTarget): string {
  const release = serial === null ? [] : [`release ${serial}`];
  const when = confirmedAt === null ? [] : [`confirmed ${confirmedAt}`];
  return [`version ${version}`, ...release, ...when].join(', ');
}

const some = (names: readonly string[]): string =>
  names.length <= namedMax
    ? names.join(', ')
    : `${names.slice(0, namedMax).join(', ')}, ${names.length - namedMax} more`;
