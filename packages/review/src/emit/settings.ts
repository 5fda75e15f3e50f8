import { plural } from '@sluice/netfilter';
import type { BundleDiff } from '../diff/diff.ts';
import type { SettingChange } from '../diff/setting-changes.ts';
import type { ProfileChange } from '../diff/profile-changes.ts';

/** The maximum number of lines of a file; a report counts the rest, and JSON and --raw have all. */
const linesMax = 40;

/** Changes of profiles, then of settings and nodes, one per line. */
export function settingLines({ settings, profiles, nodes }: BundleDiff): readonly string[] {
  const byProfile = Map.groupBy(profiles, ({ profile }) => profile);
  const moved = profiles.filter(({ what }) => what === 'mode').map(({ profile }) => profile);
  return [
    ...[...byProfile].flatMap(([profile, changes]) => [
      `~ profile ${profile} (${plural(changes[0]!.nodes, 'node')})`,
      ...changes.map((change) => `    ${profileText(change)}`),
    ]),
    ...settings.flatMap((setting) => linesOf(setting, moved)),
    ...nodes.added.map((name) => `+ node ${name}`),
    ...nodes.removed.map((name) => `- node ${name}`),
  ];
}

/** The parts of a profile that can change or be wrong. */
export const profileNames = {
  mode: 'mode',
  established: 'forwarded packets of established connections:',
  invalid: 'forwarded packets without a connection (INVALID):',
  masqueraded: 'forwarded packets to masquerade:',
  mark: 'the mark of masqueraded packets:',
  'source-ports': 'source ports of masqueraded connections:',
  sysctl: 'sysctl',
} as const satisfies Record<ProfileChange['what'], string>;

/** `~ mode iptables → ipvs, scheduler rr` */
function profileText({ what, family, old, new: updated }: ProfileChange): string {
  const where = family === undefined ? '' : ` (${family})`;
  return `${changeText(profileNames[what], old, updated)}${where}`;
}

/** `~ mode iptables → ipvs`; `+ mode ipvs` and `- mode ipvs` of what one side lacks. */
export function changeText(what: string, old: string | undefined, updated: string | undefined): string {
  if (old === undefined) return `+ ${what} ${updated}`;
  return updated === undefined ? `- ${what} ${old}` : `~ ${what} ${old} → ${updated}`;
}

/** Lines of `sysctl.conf` are printed with their profile. When the mode changes, all base lines differ and are only counted. */
function linesOf({ file, old, new: updated }: SettingChange, moved: readonly string[]): readonly string[] {
  if (file.endsWith('/base/sysctl.conf')) return [];
  if (moved.some((profile) => file.startsWith(`profiles/${profile}/base/`))) {
    return [`~ ${file}: ${plural(old.length, 'line')} of one mode become ${updated.length} of the other`];
  }
  const lines = [...old.map((line) => `    - ${line}`), ...updated.map((line) => `    + ${line}`)];
  const more = lines.length > linesMax ? [`    … and ${lines.length - linesMax} more lines; --raw has all`] : [];
  return [`~ ${file}`, ...lines.slice(0, linesMax), ...more];
}
