import type { BundleDiff, SettingChange } from '../../review/diff.ts';
import type { ProfileChange } from '../../review/profile-changes.ts';
import { plural } from '../../review/words.ts';

/** Past this many lines of a file a report says how many more there are; JSON and the raw difference have all. */
const linesMax = 40;

/** What changes for profiles, then settings and nodes that differ, a line each. */
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

/** What changes, or is wrong, about a profile. */
export const profileNames = {
  mode: 'mode',
  established: 'forwarded packets of connections that stand:',
  invalid: 'forwarded packets of no connection:',
  masqueraded: 'forwarded packets that are masqueraded:',
  mark: 'the mark of packets that were masqueraded:',
  'source-ports': 'source ports of masqueraded connections:',
  sysctl: 'sysctl',
} as const satisfies Record<ProfileChange['what'], string>;

/** `~ mode iptables → ipvs, scheduler rr` */
function profileText({ what, family, old, new: fresh }: ProfileChange): string {
  const where = family === undefined ? '' : ` (${family})`;
  if (old === undefined) return `+ ${profileNames[what]} ${fresh}${where}`;
  if (fresh === undefined) return `- ${profileNames[what]} ${old}${where}`;
  return `~ ${profileNames[what]} ${old} → ${fresh}${where}`;
}

/** Lines of `sysctl.conf` are said with their profile. What makes up a mode is another text in every line, which nobody reads. */
function linesOf({ file, old, new: fresh }: SettingChange, moved: readonly string[]): readonly string[] {
  if (file.endsWith('/base/sysctl.conf')) return [];
  if (moved.some((profile) => file.startsWith(`profiles/${profile}/base/`))) {
    return [`~ ${file}: ${plural(old.length, 'line')} of one mode become ${fresh.length} of the other`];
  }
  const lines = [...old.map((line) => `    - ${line}`), ...fresh.map((line) => `    + ${line}`)];
  const more = lines.length > linesMax ? [`    … and ${lines.length - linesMax} more lines; --raw has all`] : [];
  return [`~ ${file}`, ...lines.slice(0, linesMax), ...more];
}
