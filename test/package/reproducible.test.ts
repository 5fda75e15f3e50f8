// @module-tag all
import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { execaSync } from 'execa';
import { expect, test } from 'vitest';
import { ImageLayout, noImagesBecause } from './layout.fixture.ts';
import { epoch, url, version } from './setup.ts';
import { packages, scratch } from './unpack.fixture.ts';

const root = join(import.meta.dirname, '../..');
const lines = (file: string): readonly string[] => readFileSync(file, 'utf8').trimEnd().split('\n');

/** A copy of the checkout, in another place, with the same libraries. */
function copyOfCheckout(): string {
  const copy = join(scratch(), 'another/place');
  const { stdout } = execaSync('git', [
    '-C',
    root,
    'ls-files',
    '-z',
    '--cached',
    '--others',
    '--exclude-standard',
    '--deduplicate',
  ]);
  const wanted = stdout
    .split('\0')
    .filter((path) => /^(packages|tools|packaging|deploy|docs|integrations|[^/]+$)/.test(path));
  for (const path of wanted) {
    mkdirSync(dirname(join(copy, path)), { recursive: true });
    cpSync(join(root, path), join(copy, path), { force: true });
  }
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
  for (const name of ['bundle', 'cli', 'transport', 'renderer', 'review', 'delivery', 'sluice', 'applier']) {
    cpSync(join(root, 'packages', name, 'node_modules'), join(copy, 'packages', name, 'node_modules'), {
      recursive: true,
      verbatimSymlinks: true,
    });
  }
  return copy;
}

test('another directory, umask, locale and time zone give the same bytes', (context) => {
  if (packages.whyNot) return context.skip(packages.whyNot);
  const copy = copyOfCheckout();
  const target = join(copy, 'out');
  const noImages = noImagesBecause ? ['--no-images'] : [];
  const script = 'umask 077 && exec "$0" "$@"';
  execaSync(
    'sh',
    [
      '-c',
      script,
      process.execPath,
      join(copy, 'tools/package.ts'),
      '--arch',
      'x64',
      '-o',
      target,
      '--url',
      url,
      ...noImages,
    ],
    {
      env: {
        SOURCE_DATE_EPOCH: String(epoch),
        SLUICE_VERSION: version,
        LC_ALL: 'C.UTF-8',
        LANG: 'tr_TR.UTF-8',
        TZ: 'Pacific/Chatham',
      },
    },
  );
  // Repositories, which have folders, are there with a key alone.
  const ours = (file: string): readonly string[] =>
    lines(file).filter((line) => /^[^/]+(amd64|(linux|darwin)-x64)[^/]+$/.test(line));
  expect(ours(join(target, 'SHA256SUMS'))).toHaveLength(4);
  expect(ours(join(target, 'SHA256SUMS'))).toEqual(ours(join(packages.folder, 'SHA256SUMS')));
  // Signatures of rpm are inside its packages.
  const headerOf = (folder: string): string => {
    const [name = ''] = readdirSync(folder).filter((one) => one.endsWith('.x86_64.rpm'));
    return execaSync('rpm', ['-qp', '--nosignature', '--qf', '%{SHA256HEADER}', join(folder, name)]).stdout;
  };
  expect(headerOf(target)).toMatch(/^[0-9a-f]{64}$/);
  expect(headerOf(target)).toBe(headerOf(packages.folder));
  if (noImagesBecause) return;
  for (const title of ['sluice', 'sluice-node']) {
    const [theirs, again] = [packages.folder, target].map(
      (folder) => new ImageLayout(join(folder, `${title}-${version}-image.tar`)).manifests.get('amd64')?.digest,
    );
    expect(again).toMatch(/^sha256:/);
    expect(again).toBe(theirs);
  }
}, 300_000);

test('SHA256SUMS covers every file, and sha256sum verifies them', (context) => {
  if (packages.whyNot) return context.skip(packages.whyNot);
  const { stdout } = execaSync('sha256sum', ['-c', 'SHA256SUMS'], { cwd: packages.folder });
  const checked = stdout.split('\n').map((line) => line.replace(/: OK$/, ''));
  const names = readdirSync(packages.folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name).slice(packages.folder.length + 1));
  expect(new Set([...checked, 'SHA256SUMS', 'SHA256SUMS.asc'])).toEqual(new Set(names));
});
