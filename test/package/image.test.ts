// @module-tag all
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { execaSync } from 'execa';
import { expect, test } from 'vitest';
import { inImage, noImageBecause, openImage, unpackImage } from './image.fixture.ts';
import { version } from './setup.ts';

const qemu = '/usr/bin/qemu-aarch64-static';
const example = join(import.meta.dirname, '../../examples/01-cluster-ip');

test('the image has one layer for each architecture, and runs as a user without files', (context) => {
  if (noImageBecause) return context.skip(noImageBecause);
  const image = openImage();
  expect([...image.manifests.keys()]).toEqual(['amd64', 'arm64']);
  for (const architecture of ['amd64', 'arm64'])
    expect(image.config(architecture)).toMatchObject({
      architecture,
      config: { User: '65532:65532', Entrypoint: ['/usr/bin/sluice'] },
    });
});

test('for arm64, programs start with their own libraries, and render an example', (context) => {
  if (noImageBecause) return context.skip(noImageBecause);
  if (!existsSync(qemu)) return context.skip(`${qemu} is missing: apt-get install qemu-user-static`);
  const root = openImage().unpack('arm64');
  const start = (path: string, ...argv: readonly string[]): string =>
    execaSync(qemu, ['-L', root, join(root, path), ...argv]).stdout;
  expect(start('usr/bin/sluice', '--version')).toBe(version);
  expect(start('usr/bin/git', '--version')).toContain('git version');
  expect(start('usr/bin/dash', '-c', 'echo $((6 * 7))')).toBe('42');
  const out = join(root, 'work/out');
  start('usr/bin/sluice', 'render', '-f', join(example, 'in'), '-o', out);
  execaSync('diff', ['-r', '-x', '.sluice-complete', join(example, 'out'), out]);
});

test.for([
  ['sluice starts', ['/usr/bin/sluice', '--version'], version],
  ['git is installed, for commits of watch', ['/usr/bin/git', '--version'], 'git version'],
  ['a shell is installed, for pipelines', ['/bin/sh', '-c', 'sluice --version'], version],
  ['the work directory is writable', ['/bin/sh', '-c', ': > /tmp/x && : > /work/x && echo written'], 'written'],
  ['other directories are read-only', ['/bin/sh', '-c', '(: > /etc/x) 2> /dev/null || echo refused'], 'refused'],
  // No server listens there: an attempt to connect means that the helper and all its libraries are installed.
  ['git supports HTTPS', ['/bin/sh', '-c', 'git ls-remote https://127.0.0.1:1/x 2>&1; :'], 'Failed to connect'],
  [
    'the image has the licences of its parts',
    ['/bin/sh', '-c', 'cat /usr/share/doc/*/copyright /usr/share/common-licenses/GPL-2 /usr/share/doc/sluice/THIRD*'],
    'Node.js is licensed for use as follows',
  ],
] as const)('in the unpacked image: %s', ([, argv, expected], context) => {
  if (noImageBecause) return context.skip(noImageBecause);
  expect(execaSync(...inImage(unpackImage(), argv)).stdout).toContain(expected);
});
