import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { execaSync } from 'execa';
import { expect, test } from 'vitest';
import { version } from '../../packages/applier/src/version.ts';
import type { Descriptor } from '../../tools/package/image.ts';
import { artefact, packages, scratch } from './unpack.fixture.ts';

const whyNot = packages.whyNot || (process.getuid?.() === 0 ? '' : 'chroot needs root');

function unpackLayout(): { readonly layout: string; readonly manifest: Manifest } {
  const layout = scratch();
  execaSync('tar', ['-xf', artefact('-image-amd64.tar'), '-C', layout]);
  const index = JSON.parse(readFileSync(join(layout, 'index.json'), 'utf8')) as { manifests: [Descriptor] };
  return { layout, manifest: JSON.parse(blob(layout, index.manifests[0]).toString()) as Manifest };
}

interface Manifest {
  readonly config: Descriptor;
  readonly layers: readonly [Descriptor];
}

/** A blob whose size and digest are what its descriptor says. */
function blob(layout: string, { digest, size }: Descriptor): Buffer {
  const bytes = readFileSync(join(layout, 'blobs', digest.replace(':', '/')));
  expect({ size: bytes.length, digest: `sha256:${createHash('sha256').update(bytes).digest('hex')}` }).toEqual({
    size,
    digest,
  });
  return bytes;
}

test('the image has one layer and runs as a user who owns nothing', (context) => {
  if (whyNot) return context.skip(whyNot);
  const { layout, manifest } = unpackLayout();
  const config = JSON.parse(blob(layout, manifest.config).toString()) as { config: object; rootfs: object };
  expect(manifest.layers).toHaveLength(1);
  expect(config.config).toMatchObject({ User: '65532:65532', Entrypoint: ['/usr/bin/sluice'] });
});

test.for([
  ['sluice starts', ['/usr/bin/sluice', '--version'], version],
  ['git is there, for commits of watch', ['/usr/bin/git', '--version'], 'git version'],
  ['a pipeline finds a shell', ['/bin/sh', '-c', 'sluice --version'], version],
  // Nothing listens there: that it tries to connect means that the helper and all its libraries are there.
  ['git can speak HTTPS', ['/bin/sh', '-c', 'git ls-remote https://127.0.0.1:1/x 2>&1; :'], 'Failed to connect'],
  [
    'what is inside comes with its licences',
    ['/bin/sh', '-c', 'cat /usr/share/doc/*/copyright /usr/share/common-licenses/GPL-2 /usr/share/doc/sluice/THIRD*'],
    'Node.js is licensed for use as follows',
  ],
] as const)('in the unpacked image: %s', ([, argv, expected], context) => {
  if (whyNot) return context.skip(whyNot);
  const { layout, manifest } = unpackLayout();
  const root = join(layout, 'root');
  mkdirSync(root);
  execaSync('tar', ['-xz', '-C', root], { input: blob(layout, manifest.layers[0]) });
  // What whoever runs a container brings.
  execaSync('mknod', ['-m', '666', join(root, 'dev/null'), 'c', '1', '3']);
  const environment = { PATH: '/usr/bin', HOME: '/work' };
  const { stdout } = execaSync('/usr/sbin/chroot', ['--userspec=65532:65532', root, ...argv], {
    env: environment,
    extendEnv: false,
  });
  expect(stdout).toContain(expected);
});
