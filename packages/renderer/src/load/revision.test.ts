import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { readBundle } from './revision.ts';

const cluster = 'kind: Cluster\n';
let root = '';
const before = process.cwd();

/** Runs git without the person's own settings. */
function git(...args: readonly string[]): string {
  const env = { PATH: '/usr/bin:/bin', HOME: root, GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_NOSYSTEM: '1' };
  const who = ['-c', 'user.name=t', '-c', 'user.email=t@example.org', '-c', 'init.defaultBranch=main'];
  return execFileSync('/usr/bin/git', [...who, ...args], { cwd: root, env, encoding: 'utf8', stdio: 'pipe' });
}

function write(path: string, text: string): void {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
}

function commit(): void {
  git('add', '-A');
  git('commit', '-q', '--allow-empty', '-m', 'state');
}

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'sluice-revision-'));
  git('init', '-q');
  write('rendered/cluster.yaml', cluster);
  write('rendered/nodes/node-a/node.yaml', 'kind: Node\nname: ä\n');
  // Same bytes twice are one blob, and an empty file is one of no bytes.
  write('rendered/nodes/node-b/node.yaml', 'kind: Node\nname: ä\n');
  write('rendered/quarantine.yaml', '');
  commit();
  process.chdir(root);
});

afterEach(() => {
  process.chdir(before);
  rmSync(root, { recursive: true });
});

test('a revision of a directory is read as it was, whatever the work tree holds', () => {
  git('tag', 'v1');
  write('rendered/cluster.yaml', 'other\n');
  const status = git('status', '--porcelain');
  const files = readBundle('v1:rendered');
  expect(files).toEqual(
    new Map([
      ['cluster.yaml', cluster],
      ['nodes/node-a/node.yaml', 'kind: Node\nname: ä\n'],
      ['nodes/node-b/node.yaml', 'kind: Node\nname: ä\n'],
      ['quarantine.yaml', ''],
    ]),
  );
  expect(git('status', '--porcelain')).toBe(status);
});

test.each(['HEAD:rendered', 'HEAD:rendered/', 'main:rendered', 'HEAD^{commit}:rendered', '@:rendered'])(
  '%s names the bundle',
  (spec) => {
    expect(readBundle(spec)).toBeInstanceOf(Map);
  },
);

test('a path is meant from where one stands', () => {
  process.chdir(join(root, 'rendered'));
  expect(readBundle('HEAD:')).toBeInstanceOf(Map);
  expect(readBundle('HEAD:.')).toBeInstanceOf(Map);
  expect(readBundle('HEAD:../rendered')).toBeInstanceOf(Map);
});

test.each([
  ['an option', '--upload-pack=touch hit:rendered', /no name of a revision/],
  ['an option that git knows', '--all:rendered', /no name of a revision/],
  ['an option as directory', 'HEAD:--output=hit', /Cannot read the bundle HEAD:--output=hit/],
  ['a command', '$(touch hit):rendered', /no name of a revision/],
  ['a line break', 'HEAD\nHEAD:rendered', /no name of a revision/],
  ['a range', 'HEAD..HEAD:rendered', /Cannot read/],
  ['no revision', 'nothing:rendered', /Cannot read the bundle nothing:rendered: /],
  ['no directory of it', 'HEAD:nowhere', /Cannot read the bundle HEAD:nowhere: /],
  ['a directory above the repository', 'HEAD:../..', /Cannot read the bundle HEAD:..\/..: /],
  ['a file', 'HEAD:rendered/cluster.yaml', /Cannot read/],
  ['an empty revision', ':rendered', /no such directory/],
  ['a missing directory', 'nowhere', /no such directory/],
] as const)('%s is no bundle, and nothing is run', (_title, spec, message) => {
  const read = readBundle(spec);
  expect(read).toMatchObject({ code: 'INPUT_UNREADABLE', level: 'error' });
  expect('message' in read ? read.message : '').toMatch(message);
  expect(existsSync(join(root, 'hit'))).toBe(false);
});

test('outside of a repository the reason is git’s', () => {
  const bare = mkdtempSync(join(tmpdir(), 'sluice-nowhere-'));
  process.chdir(bare);
  try {
    expect(readBundle('HEAD:rendered')).toMatchObject({
      code: 'INPUT_UNREADABLE',
      message: expect.stringContaining('not a git repository'),
    });
  } finally {
    process.chdir(root);
    rmSync(bare, { recursive: true });
  }
});

test.each([
  ['a file that no bundle has', () => write('rendered/notes.txt', 'x\n')],
  ['a name with a line break', () => write('rendered/nodes/a\nb/node.yaml', 'x\n')],
  ['a link', () => symlinkSync('/etc/passwd', join(root, 'rendered/.gitattributes'))],
  ['no cluster.yaml', () => rmSync(join(root, 'rendered/cluster.yaml'))],
] as const)('a directory with %s is refused', (_title, change) => {
  change();
  commit();
  expect(readBundle('HEAD:rendered')).toMatchObject({ code: 'BUNDLE_INVALID' });
});

test('a directory that is there wins over a revision of that name', () => {
  mkdirSync(join(root, 'HEAD:rendered'));
  expect(readBundle('HEAD:rendered')).not.toBeInstanceOf(Map);
});
