import { lstatSync } from 'node:fs';
import type { SluicedConfig } from '../../config.ts';
import type { Kernel } from '../../ports/kernel.ts';
import type { Report } from '../../ports/ports.ts';
import type { Run } from '../command.ts';
import type { Tools } from '../tools.ts';
import { loadOf } from './load.ts';
import { rehearseInNamespace } from './namespace.ts';
import { rehearseInUnit, rehearsalSocket } from './unit.ts';

/** Where rehearsals run. */
type RehearsalPlace = 'unit' | 'namespace';

/**
 * Where rehearsals run now. `auto` uses the socket if it exists; if the socket then fails, that is reported and not bypassed, because a
 * process that systemd keeps out of namespaces could not make one either.
 */
export function placeOf(wanted: SluicedConfig['rehearse'], path = rehearsalSocket): RehearsalPlace | 'off' {
  if (wanted !== 'auto') return wanted;
  return lstatSync(path, { throwIfNoEntry: false })?.isSocket() === true ? 'unit' : 'namespace';
}

/**
 * Loads states for real where no packet meets them: in the unit that systemd starts for it, or in a namespace of a child.
 * @param report called for each finished rehearsal, with its place
 */
export function rehearser(
  wanted: SluicedConfig['rehearse'],
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
