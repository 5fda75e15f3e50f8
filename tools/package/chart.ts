/** The Helm chart of a release: as the archive that `helm install` takes, and as an OCI artifact. */
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { parse } from 'yaml';
import { tagVersion } from '../version.ts';
import { tar } from './archive.ts';
import type { PackageRelease } from './deb.ts';
import { addBlob, json, types, writeLayout } from './image.ts';
import { withoutClock } from './tree.ts';

/** As Helm writes and reads them: https://helm.sh/docs/topics/registries/. */
const helmTypes = {
  config: 'application/vnd.cncf.helm.config.v1+json',
  chart: 'application/vnd.cncf.helm.chart.content.v1.tar+gzip',
} as const;

/**
 * Writes sluice-VERSION.tgz and sluice-chart-VERSION.tar, an OCI image layout of it, and returns their names.
 * @param work a folder that does not exist
 */
export function buildChart(root: string, work: string, release: PackageRelease, target: string): readonly string[] {
  const folder = join(work, 'sluice');
  cpSync(join(root, 'deploy/chart'), folder, { recursive: true });
  edit(join(folder, 'Chart.yaml'), /^(version|appVersion): .*$/gm, `$1: ${release.version}`);
  // The images of this release, by the tags that its layouts have.
  for (const name of ['values.yaml', 'README.md'])
    edit(join(folder, name), /(registry\.example\.com\/[a-z-]+):[\w.-]+/g, `$1:${tagVersion(release.version)}`);
  tar(folder, release.epoch, join(work, 'chart.tar'));
  const chart = withoutClock(gzipSync(readFileSync(join(work, 'chart.tar'))));
  const names = [`sluice-${release.version}.tgz`, `sluice-chart-${release.version}.tar`] as const;
  writeFileSync(join(target, names[0]), chart);
  const about = parse(readFileSync(join(folder, 'Chart.yaml'), 'utf8')) as Readonly<Record<string, string>>;
  const layout = join(work, 'layout');
  const manifest = {
    schemaVersion: 2,
    mediaType: types.manifest,
    config: addBlob(layout, helmTypes.config, json(about)),
    layers: [addBlob(layout, helmTypes.chart, chart)],
    annotations: {
      'org.opencontainers.image.title': about['name'],
      'org.opencontainers.image.version': release.version,
      'org.opencontainers.image.description': about['description'],
    },
  };
  // Helm asks for a version by this tag: tags have no `+`.
  const tag = release.version.replace('+', '_');
  writeLayout(layout, addBlob(layout, types.manifest, json(manifest)), tag, release, join(target, names[1]));
  rmSync(work, { recursive: true });
  return names;
}

function edit(file: string, pattern: RegExp, replacement: string): void {
  writeFileSync(file, readFileSync(file, 'utf8').replaceAll(pattern, replacement));
}
