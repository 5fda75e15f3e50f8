import { families, type Family } from '@sluice/netfilter';
import { sysctlFile } from '@sluice/bundle';
import type { SettingChange } from './setting-changes.ts';
import { nodesOfProfile } from '../bundle/node.ts';
import { type BaseTreatment, baseTreatmentOf, baseTreatmentKeys } from '../flows/base-treatment.ts';
import { hasFamily, type BundleView } from '../bundle/view.ts';

/** A change to the traffic of every node with a profile that no flow shows: flows are first packets of connections. */
export interface ProfileChange {
  readonly profile: string;
  /** The number of nodes with this profile. */
  readonly nodes: number;
  /** `sysctl`: a line of `sysctl.conf`. `BaseTreatment` describes the others. */
  readonly what: 'mode' | 'sysctl' | keyof BaseTreatment;
  /** Absent: all of the profile's families. */
  readonly family?: Family;
  /** Absent: added. */
  readonly old?: string;
  /** Absent: removed. */
  readonly new?: string;
}

type ProfileChangeBody = Omit<ProfileChange, 'profile' | 'nodes'>;

/** The changes of profiles that both bundles have. @param settings the lines that differ */
export function profileChanges(
  before: BundleView,
  after: BundleView,
  settings: readonly SettingChange[],
): readonly ProfileChange[] {
  return [...after.profiles.keys()]
    .filter((profile) => before.profiles.has(profile))
    .flatMap((profile) => {
      const nodes = nodesOfProfile(after, profile).length;
      const sysctls = settings.find(({ file }) => file === sysctlFile(profile));
      const changes = [
        ...modeChanges(modeText(before, profile), modeText(after, profile)),
        ...baseChanges(before, after, profile),
        ...(sysctls ? sysctlChanges(sysctls) : []),
      ];
      return changes.map((change) => ({ profile, nodes, ...change }));
    });
}

function modeText(view: BundleView, profile: string): string {
  const { mode, ipvs } = view.profiles.get(profile)!;
  return ipvs ? `${mode}, scheduler ${ipvs.scheduler}` : mode;
}

const modeChanges = (old: string, updated: string): readonly ProfileChangeBody[] =>
  old.split(',')[0] === updated.split(',')[0] ? [] : [{ what: 'mode', old, new: updated }];

/** A change that is the same in both families is reported once. */
function baseChanges(before: BundleView, after: BundleView, profile: string): readonly ProfileChangeBody[] {
  const shared = families.filter((family) => hasFamily(before, profile, family) && hasFamily(after, profile, family));
  const answers = shared.map((family) => ({
    family,
    old: baseTreatmentOf(before, profile, family),
    updated: baseTreatmentOf(after, profile, family),
  }));
  return baseTreatmentKeys.flatMap((what) => {
    const changed = answers.flatMap(({ family, old, updated }): readonly ProfileChangeBody[] =>
      old[what] === updated[what] ? [] : [{ what, family, old: old[what], new: updated[what] }],
    );
    const texts = new Set(changed.map((change) => `${change.old} ${change.new}`));
    if (changed.length < shared.length || texts.size !== 1) return changed;
    const { family: _family, ...both } = changed[0]!;
    return [both];
  });
}

function sysctlChanges({ old, new: updated }: SettingChange): readonly ProfileChangeBody[] {
  const [was, is] = [old, updated].map((lines) => new Map(lines.map(readSetting)));
  const names = [...new Set([...was!.keys(), ...is!.keys()])].toSorted();
  return names.map((name) => {
    const [before, after] = [was!.get(name), is!.get(name)];
    return {
      what: 'sysctl',
      ...(before === undefined ? {} : { old: `${name} ${before}` }),
      ...(after === undefined ? {} : { new: before === undefined ? `${name} ${after}` : after }),
    };
  });
}

/** `@kernel=4.1..5.8 net.ipv4.vs.conn_reuse_mode = 0` as a name with its guard, and a value. */
function readSetting(line: string): readonly [name: string, value: string] {
  const at = line.indexOf(' = ');
  return at < 0 ? [line, ''] : [line.slice(0, at), line.slice(at + 3)];
}
