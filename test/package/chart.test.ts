// @module-tag all
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { execa } from 'execa';
import { expect, onTestFinished, test } from 'vitest';
import { parse } from 'yaml';
import type { BlobDescriptor } from '../../tools/package/image.ts';
import { tagVersion } from '../../tools/version.ts';
import { need } from '../deploy/programs.ts';
import { FakeRegistry } from '../registry/fake.fixture.ts';
import { version } from './setup.ts';
import { artefact, packages, scratch } from './unpack.fixture.ts';

const source = join(import.meta.dirname, '../../deploy/chart');
const tag = version.replace('+', '_');
const image = `registry.example.com/sluice-node:${tagVersion(version)}`;
const chartArchive = (): string => artefact(`sluice-${version}.tgz`);
const filesOf = (folder: string): readonly string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' }).toSorted((a, b) => (a < b ? -1 : 1));

interface Manifest {
  readonly config: BlobDescriptor;
  readonly layers: readonly [BlobDescriptor];
}

/** The unpacked layout: each blob of it is what its name says. */
function readLayout() {
  const folder = scratch();
  execFileSync('tar', ['-xf', artefact(`sluice-chart-${version}.tar`), '-C', folder]);
  const blobs = new Map<string, Buffer>(
    readdirSync(join(folder, 'blobs/sha256')).map((name) => {
      const bytes = readFileSync(join(folder, 'blobs/sha256', name));
      expect(createHash('sha256').update(bytes).digest('hex')).toBe(name);
      return [`sha256:${name}`, bytes] as const;
    }),
  );
  const index = JSON.parse(readFileSync(join(folder, 'index.json'), 'utf8')) as { manifests: [BlobDescriptor] };
  const [named] = index.manifests;
  const manifest = JSON.parse(blobs.get(named.digest)?.toString() ?? '') as Manifest;
  return { blobs, index, named, manifest };
}

test('the chart has the version of the release, its images, and all files', (context) => {
  if (packages.whyNot) return context.skip(packages.whyNot);
  const folder = scratch();
  execFileSync('tar', ['-xzf', chartArchive(), '-C', folder]);
  const read = (name: string): string => readFileSync(join(folder, 'sluice', name), 'utf8');
  expect(filesOf(join(folder, 'sluice'))).toEqual(filesOf(source));
  expect(parse(read('Chart.yaml'))).toMatchObject({ name: 'sluice', version, appVersion: version });
  expect(parse(read('values.yaml'))).toMatchObject({ watch: { image }, sluiced: { image } });
  expect(read('README.md').split(`\`"${image}"\``)).toHaveLength(3);
});

test('the layout has the types of Helm, and the same archive', (context) => {
  if (packages.whyNot) return context.skip(packages.whyNot);
  const { blobs, index, manifest } = readLayout();
  expect(index.manifests).toMatchObject([
    {
      mediaType: 'application/vnd.oci.image.manifest.v1+json',
      annotations: { 'org.opencontainers.image.ref.name': tag },
    },
  ]);
  expect(manifest).toMatchObject({
    config: { mediaType: 'application/vnd.cncf.helm.config.v1+json' },
    layers: [{ mediaType: 'application/vnd.cncf.helm.chart.content.v1.tar+gzip' }],
  });
  const config = JSON.parse(blobs.get(manifest.config.digest)?.toString() ?? '') as object;
  expect(config).toMatchObject({ apiVersion: 'v2', name: 'sluice', version, appVersion: version });
  expect(blobs.get(manifest.layers[0].digest)).toEqual(readFileSync(chartArchive()));
  expect([...blobs.keys()]).toHaveLength(3);
});

test('helm pulls it from a registry by the version, and renders it', { timeout: 3_600_000 }, async (context) => {
  if (packages.whyNot) return context.skip(packages.whyNot);
  const helm = await need(context, 'helm');
  const registry = await FakeRegistry.open();
  onTestFinished(() => registry.close());
  // As `skopeo copy oci-archive:… docker://…` does.
  const { blobs, named } = readLayout();
  for (const [digest, bytes] of blobs) registry.blobs.set(digest, bytes);
  const bytes = blobs.get(named.digest) as Buffer;
  for (const name of [tag, named.digest]) registry.manifests.set(name, { bytes, type: named.mediaType });
  const folder = scratch();
  mkdirSync(join(folder, 'pulled'));
  const run = async (...argv: readonly string[]): Promise<string> =>
    (
      await execa(helm, [...argv, '--version', version, '--plain-http'], {
        cwd: join(folder, 'pulled'),
        env: { PATH: '/usr/bin', HOME: folder },
        extendEnv: false,
      })
    ).stdout;
  const address = `oci://${registry.host}/charts/sluice`;
  await run('pull', address);
  const [pulled = ''] = readdirSync(join(folder, 'pulled'));
  expect(readFileSync(join(folder, 'pulled', pulled))).toEqual(readFileSync(chartArchive()));
  const rendered = await run('template', 'sluice', address, '--kube-version', '1.37.0', '--set', 'delivery=git');
  expect(rendered).toContain(`app.kubernetes.io/version: "${tag}"`);
  expect(rendered.split(image)).toHaveLength(3);
});
