import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { readBundle } from './revision.ts';

const cluster = 'kind: Cluster\n';
let root = '';
const before = process.cwd();

/** Runs git without the user's settings. */
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
  // Equal files are one blob, and an empty file is an empty blob.
  write('rendered/nodes/node-b/node.yaml', 'kind: Node\nname: ä\n');
  write('rendered/quarantine.yaml', '');
  commit();
  process.chdir(root);
});

afterEach(() => {
  process.chdir(before);
  rmSync(root, { recursive: true });
});

test('reads a directory of a revision independent of the work tree', () => {
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
  'accepts %s as the bundle',
  (spec) => {
    expect(readBundle(spec)).toBeInstanceOf(Map);
  },
);

test('resolves a path relative to the current directory', () => {
  process.chdir(join(root, 'rendered'));
  expect(readBundle('HEAD:')).toBeInstanceOf(Map);
  expect(readBundle('HEAD:.')).toBeInstanceOf(Map);
  expect(readBundle('HEAD:../rendered')).toBeInstanceOf(Map);
});

test.each([
  ['an option', '--upload-pack=touch hit:rendered', /is not a valid revision/],
  ['an option that git knows', '--all:rendered', /is not a valid revision/],
  ['an option as directory', 'HEAD:--output=hit', /Cannot read the bundle HEAD:--output=hit/],
  ['a command', '$(touch hit):rendered', /is not a valid revision/],
  ['a line break', 'HEAD\nHEAD:rendered', /is not a valid revision/],
  ['a range', 'HEAD..HEAD:rendered', /Cannot read/],
  ['no revision', 'nothing:rendered', /Cannot read the bundle nothing:rendered: /],
  ['no directory of it', 'HEAD:nowhere', /Cannot read the bundle HEAD:nowhere: /],
  ['a directory above the repository', 'HEAD:../..', /Cannot read the bundle HEAD:..\/..: /],
  ['a file', 'HEAD:rendered/cluster.yaml', /Cannot read/],
  ['an empty revision', ':rendered', /no such directory/],
  ['a missing directory', 'nowhere', /no such directory/],
] as const)('refuses %s as a bundle and runs no program', (_title, spec, message) => {
  const read = readBundle(spec);
  expect(read).toMatchObject({ code: 'INPUT_UNREADABLE', level: 'error' });
  expect('message' in read ? read.message : '').toMatch(message);
  expect(existsSync(join(root, 'hit'))).toBe(false);
});

test('reports git’s message outside of a repository', () => {
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
  ['a foreign file', () => write('rendered/notes.txt', 'x\n')],
  ['a name with a line break', () => write('rendered/nodes/a\nb/node.yaml', 'x\n')],
  ['a link', () => symlinkSync('/etc/passwd', join(root, 'rendered/.gitattributes'))],
  ['no cluster.yaml', () => rmSync(join(root, 'rendered/cluster.yaml'))],
] as const)('refuses a directory with %s', (_title, change) => {
  change();
  commit();
  expect(readBundle('HEAD:rendered')).toMatchObject({ code: 'BUNDLE_INVALID' });
});

test('prefers an existing directory over a revision of the same name', () => {
  mkdirSync(join(root, 'HEAD:rendered'));
  expect(readBundle('HEAD:rendered')).not.toBeInstanceOf(Map);
});
