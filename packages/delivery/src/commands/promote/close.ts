import { releaseLimits } from '@sluice/bundle';
import type { Problem } from '@sluice/netfilter';
import { Stopped } from '@sluice/renderer/commands/failure/failure.ts';
import { nodesText } from '../../emit/fleet/words.ts';
import type { StagedRelease } from '../evidence/target.ts';
import { notCovered, placeOpening, signedOpening } from './opening.ts';

interface CloseOptions {
  /** Of the wave; undefined: the last open one. */
  readonly name: string | undefined;
  readonly key?: string;
  readonly dryRun?: boolean;
}

/** The waves that are closed now, in words, with the number that is open; or why none was. */
type Closed = { readonly words: string; readonly open: number } | { readonly none: string };

/**
 * Closes a wave and those after it: writes an opening with one closing more, which nodes prefer to each one from before.
 * With a key it starts from what a signature covers, so that a closing that was interrupted is completed by the same command.
 * @throws Stopped for an unknown wave, and when the opening cannot be signed or written
 */
export function close(dir: string, { waves, opening }: StagedRelease, { name, key, dryRun }: CloseOptions): Closed {
  const at = name === undefined ? undefined : waves.findIndex((wave) => wave.name === name);
  if (at === -1) throw new Stopped(notClosed(dir, `the release has no wave ${name}`, 'waves.yaml names its waves'));
  const seen = key === undefined ? opening : signedOpening(dir, opening, waves.length);
  if (!seen && opening.open > 0) throw new Stopped(notCovered(dir));
  const { closings = 0 } = opening;
  const open = seen?.open ?? 0;
  const left = at ?? open - 1;
  if (open <= left || open === 0) return { none: name === undefined ? 'no wave is open' : `wave ${name} is not open` };
  if (closings === releaseLimits.closingsMax)
    throw new Stopped(notClosed(dir, `waves were closed ${closings} times`, 'Stop the rollout with a new release'));
  const closed = waves.slice(left, open).map((wave) => `${wave.name} (${nodesText(wave.nodes.length)})`);
  if (dryRun !== true) placeOpening(dir, { release: opening.release, closings: closings + 1, open: left }, key);
  return { words: closed.join(', '), open: left };
}

function notClosed(dir: string, why: string, hint: string): Problem {
  return { code: 'WAVES_INVALID', level: 'error', message: `Cannot close a wave of ${dir}: ${why}`, hint };
}
