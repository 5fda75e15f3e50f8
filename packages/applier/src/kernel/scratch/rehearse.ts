import { lstatSync } from 'node:fs';
import type { Config } from '../../config.ts';
import type { Kernel, Report } from '../../rollout/ports.ts';
import type { Run } from '../run.ts';
import type { Tools } from '../tools.ts';
import { loadOf } from './load.ts';
import { rehearseInNamespace } from './namespace.ts';
import { rehearseInUnit, rehearsalSocket } from './unit.ts';

/** Where a rehearsal is held. */
export type Place = 'unit' | 'namespace';

/**
 * Where rehearsals are held now. With `auto` the socket decides: where one is there and does not do its work, that is said and not gone
 * around, for a process that systemd keeps out of namespaces could not make one either.
 */
export function placeOf(wanted: Config['rehearse'], path = rehearsalSocket): Place | 'off' {
  if (wanted !== 'auto') return wanted;
  return lstatSync(path, { throwIfNoEntry: false })?.isSocket() === true ? 'unit' : 'namespace';
}

/**
 * Loads states for real where no packet meets them: in the unit that systemd starts for it, or in a namespace of a child.
 * @param report is told of each rehearsal that came to its end, with its place
 */
export function rehearser(
  wanted: Config['rehearse'],
  tools: Tools,
  run: Run,
  report?: Report,
  path = rehearsalSocket,
): Kernel['rehearse'] {
  return async (state) => {
    const place = placeOf(wanted, path);
    const load = loadOf(state, tools.backend);
    if (place === 'unit') await rehearseInUnit(path, load);
    else await rehearseInNamespace(load, tools, run);
    report?.('rehearsed', { in: place });
  };
}
