import { plural } from '@sluice/netfilter';
import { sysctlFile } from '@sluice/bundle';
import type { BundleDiff } from '../diff/diff.ts';
import type { ProfileChange } from '../diff/profile-changes.ts';
import type { SingleEffect } from './effect.ts';
import type { Severity } from './severity.ts';

/** What changes of profiles, nodes and settings do. */
export function profileEffects({ profiles, nodes, settings }: BundleDiff): readonly SingleEffect[] {
  const moved = new Set(profiles.flatMap(({ profile, what }) => (what === 'mode' ? [profile] : [])));
  const own = profiles.filter(({ profile, what }) => what === 'mode' || !moved.has(profile));
  const files = settings.filter(({ file }) => !own.some((change) => covers(change, file)));
  return [
    ...own.map(profileEffect),
    ...nodes.added.map((node) => other('adds', 'joins the cluster', node)),
    ...nodes.removed.map((node) => other('closes', 'leaves the cluster', node)),
    ...files.map(({ file, old, new: fresh }) => {
      const lines = [
        fresh.length > 0 ? `${plural(fresh.length, 'line')} added` : '',
        old.length > 0 ? `${plural(old.length, 'line')} removed` : '',
      ];
      return other('settings', 'has other settings', file, lines.filter(Boolean).join(', '));
    }),
  ];
}

/** Whether a change of a profile says what a changed file of it does. All files of a profile follow from its mode. */
function covers({ profile, what }: ProfileChange, file: string): boolean {
  if (what === 'mode') return file.startsWith(`profiles/${profile}/`);
  const isSysctl = file === sysctlFile(profile);
  return what === 'sysctl' ? isSysctl : !isSysctl && file.startsWith(`profiles/${profile}/base/`);
}

function profileEffect({ profile, nodes, what, old, new: fresh }: ProfileChange): SingleEffect {
  const [name, on] = [`profile ${profile}`, plural(nodes, 'node')];
  const turn = `${old ?? 'none'} → ${fresh ?? 'none'}, on ${on}`;
  if (what === 'mode') {
    const mode = fresh?.split(',')[0] ?? '';
    return other('connections', `changes to mode ${mode}: established connections break`, name, turn);
  }
  if (what === 'sysctl') return other('settings', 'changes a sysctl of its nodes', name, turn);
  return other('settings', `treats other packets differently (${whats[what]})`, name, turn);
}

const whats = {
  established: 'packets of established connections',
  invalid: 'packets of no connection',
  masqueraded: 'first packets to be masqueraded',
  mark: 'the mark for masquerading',
  'source-ports': 'source ports of masqueraded connections',
} as const satisfies Record<Exclude<ProfileChange['what'], 'mode' | 'sysctl'>, string>;

const other = (severity: Severity, sentence: string, name: string, detail = ''): SingleEffect => ({
  severity,
  sentence,
  name,
  isService: false,
  detail,
});
