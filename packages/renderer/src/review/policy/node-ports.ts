import { profileFile } from '@sluice/bundle';
import { covers } from './changes.ts';
import type { Violation } from './finding.ts';
import { lineOf } from '../facts/service-entries.ts';
import type { ChangeContext } from './context.ts';

/** NODE_PORT_OPENED for a profile whose nodePortAddresses are widened. */
export function nodePortsWidened({ view, services, base }: ChangeContext): readonly Violation[] {
  const entries = [...services.values()].flat();
  // Equal facts of several profiles are kept once, so all node ports count for each profile.
  const all = entries.flatMap(({ facts }) => facts.ports.map(({ nodePort }) => nodePort));
  const ports = new Set(all.filter((port) => port !== 0));
  return [...view.profiles].flatMap(([name, { nodePortAddresses: fresh }]) => {
    const old = base.view.profiles.get(name)?.nodePortAddresses ?? [];
    // An empty list means every address.
    const isWider =
      fresh.length === 0 || fresh.some((cidr) => !old.some((known) => known === cidr || covers(known, cidr)));
    if (old.length === 0 || !isWider || ports.size === 0) return [];
    const path = profileFile(name);
    const now = fresh.length === 0 ? 'every address' : fresh.join(', ');
    return [
      {
        code: 'NODE_PORT_OPENED',
        subject: `profile ${name}`,
        message: `${ports.size} node ${ports.size === 1 ? 'port' : 'ports'} will open on more addresses (${now} instead of ${old.join(', ')}); review required`,
        hint: 'Keep `nodePortAddresses` limited to the addresses that clients use',
        path,
        line: lineOf(view, path, 'nodePortAddresses'),
      },
    ];
  });
}
