import { profileFile } from '@sluice/bundle';
import { covers } from './changes.ts';
import type { Found } from './finding.ts';
import { lineOf } from './held.ts';
import type { ChangeQuestion } from './question.ts';

/** NODE_PORT_OPENED, of a profile: the node ports that its nodes have open on more of their addresses. */
export function nodePortsWidened({ view, services, base }: ChangeQuestion): readonly Found[] {
  const held = [...services.values()].flat();
  // What several profiles say alike is held once, so all node ports count for each.
  const all = held.flatMap(({ facts }) => facts.ports.map(({ nodePort }) => nodePort));
  const ports = new Set(all.filter((port) => port !== 0));
  return [...view.profiles].flatMap(([name, { nodePortAddresses: fresh }]) => {
    const old = base.view.profiles.get(name)?.nodePortAddresses ?? [];
    // No CIDR at all stands for every address.
    const isWider =
      fresh.length === 0 || fresh.some((cidr) => !old.some((known) => known === cidr || covers(known, cidr)));
    if (old.length === 0 || !isWider || ports.size === 0) return [];
    const path = profileFile(name);
    const now = fresh.length === 0 ? 'every address' : fresh.join(', ');
    return [
      {
        code: 'NODE_PORT_OPENED',
        subject: `profile ${name}`,
        message: `Cannot open ${ports.size} node ${ports.size === 1 ? 'port' : 'ports'} on more addresses without a look: ${old.join(', ')} becomes ${now}`,
        hint: 'Keep `nodePortAddresses` as narrow as what clients use',
        path,
        line: lineOf(view, path, 'nodePortAddresses'),
      },
    ];
  });
}
