import { type BundleFiles, resolveSections, serviceFile } from '@sluice/bundle';
import type { SluicedConfig } from '../../config.ts';
import { good, note, type PreflightFinding } from './finding.ts';

const what = 'rollback of single Services';

/** Whether `probation.perService` can have an effect: the mode, and probes that name Services of the bundle. Nothing without the option. */
export function probeServiceFindings(
  { node, probation, probes }: Pick<SluicedConfig, 'node' | 'probation' | 'probes'>,
  files: BundleFiles,
): readonly PreflightFinding[] {
  const resolved = probation.perService ? resolveSections(files, node) : [];
  if (!('version' in resolved)) return [];
  const { profile, profileName } = resolved;
  if (profile.mode !== 'nftables') {
    const todo = 'set probation.perService: false, or give the node a profile in mode nftables';
    return [note(what, `not in mode ${profile.mode}: a release that fails is rolled back as a whole`, todo)];
  }
  const named = [...new Set(probes.flatMap(({ service }) => service ?? []))];
  if (named.length === 0)
    return [note(what, 'no probe names its Service', 'add `service: NAMESPACE/NAME` to a probe in sluiced.yaml')];
  const unknown = named.filter((service) => {
    const [namespace = '', name = ''] = service.split('/');
    return !files.has(serviceFile(profileName, namespace, name, 'nft'));
  });
  return unknown.length === 0
    ? [good(what, `probes name ${named.length} Services`)]
    : unknown.map((service) =>
        note(what, `the bundle has no Service ${service}, which a probe names`, 'correct the probe in sluiced.yaml'),
      );
}
