// @module-tag all
import { execaSync } from 'execa';
import { expect, test } from 'vitest';
import { inImage, noImageBecause, unpackImage } from './image.fixture.ts';
import { version } from './setup.ts';

test('the image has one layer and runs as a user without files', (context) => {
  if (noImageBecause) return context.skip(noImageBecause);
  const { layers, config } = unpackImage();
  expect(layers).toHaveLength(1);
  expect(config).toMatchObject({ User: '65532:65532', Entrypoint: ['/usr/bin/sluice'] });
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
