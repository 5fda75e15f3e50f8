import { execFileSync } from 'node:child_process';
import { appendFileSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { blameLine } from './blame.ts';
import { readCommit } from './commit.ts';
import { readAllocationsAt } from './git.ts';
import { BundleHistory } from './history.ts';
import { readBundle } from './revision.ts';

/** An untrusted repository whose config and attributes name programs. */

let root: string;
let before: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'sluice-hostile-'));
  before = process.cwd();
  git('init', '-q', '-b', 'main');
  for (const folder of ['rendered', 'allocations']) mkdirSync(join(root, folder));
  writeFileSync(join(root, 'rendered/cluster.yaml'), 'kind: Cluster\n');
  writeFileSync(join(root, 'allocations/a.yaml'), 'kind: x\n');
  writeFileSync(join(root, 'web.yaml'), 'kind: Service\n');
  git('commit', '-q', '--allow-empty', '-m', 'nothing');
  git('add', '-A');
  git('commit', '-q', '-m', 'state');
  process.chdir(root);
});
afterEach(() => {
  process.chdir(before);
  rmSync(root, { recursive: true });
});

const marker = (): string => join(root, 'ran');
const evil = (): string => `touch ${marker()}; false`;

function git(...args: readonly string[]): string {
  const env = { PATH: '/usr/bin:/bin', HOME: root, GIT_CONFIG_NOSYSTEM: '1' };
  const who = ['-c', 'user.name=t', '-c', 'user.email=t@example.com'];
  return execFileSync('/usr/bin/git', [...who, ...args], { cwd: root, env, encoding: 'utf8', stdio: 'pipe' });
}

/** Runs every function that calls git. */
function askAll(): readonly unknown[] {
  return [
    readBundle('main:rendered'),
    readAllocationsAt(join(root, 'allocations'), 'main'),
    blameLine(join(root, 'web.yaml'), 1),
    historyOf('rendered'),
  ];
}

/** Whatever `sluice trace --at` and `sluice bisect` read. */
function historyOf(dir: string): unknown {
  const history = new BundleHistory(dir);
  const head = history.resolve('2100-01-01');
  if (typeof head !== 'string') return head;
  history.mergeBase(head, 'main');
  const step = history.step(head);
  if ('code' in step) return step;
  const steps = history.steps(git('rev-parse', 'HEAD~1').trim(), head);
  return { commit: readCommit(history.place, head).summary, steps, files: history.filesOf('node-a', step) };
}

test('runs no program from the config of a repository', () => {
  for (const key of [
    'core.fsmonitor',
    'core.sshCommand',
    'core.pager',
    'core.gitProxy',
    'diff.x.textconv',
    'filter.x.clean',
    'gpg.program',
    'core.editor',
    'core.alternateRefsCommand',
    'uploadpack.packObjectsHook',
  ])
    git('config', key, evil());
  git('config', 'filter.x.smudge', evil());
  git('config', 'filter.x.required', 'true');
  git('config', 'log.showSignature', 'true');
  appendFileSync(join(root, '.git/info/attributes'), '* filter=x diff=x\n');
  const [bundle, allocations, blame, history] = askAll();
  expect(history).toMatchObject({ commit: 'state', steps: [{}, {}], files: { code: 'BUNDLE_UNKNOWN_NODE' } });
  expect(bundle).toBeInstanceOf(Map);
  expect(allocations).toMatchObject({ problems: [{ at: { file: 'main:allocations/a.yaml' } }] });
  expect(blame).toMatchObject({ author: 't', summary: 'state' });
  writeFileSync(join(root, 'web.yaml'), 'apiVersion: v1\nkind: Service\n');
  expect(blameLine(join(root, 'web.yaml'), 1), 'not committed yet').toBeUndefined();
  expect(blameLine(join(root, 'web.yaml'), 2)).toMatchObject({ summary: 'state' });
  expect(existsSync(marker())).toBe(false);
});

test.each([
  ['uploadpack', (): readonly string[] => ['remote.origin.uploadpack', evil()]],
  ['a URL that is a command', (): readonly string[] => ['remote.origin.url', `ext::sh -c "${evil()}"`]],
  ['core.sshCommand', (): readonly string[] => ['core.sshCommand', evil()]],
])('does not fetch missing objects by %s', (_title, setting) => {
  git('config', 'remote.origin.url', _title === 'core.sshCommand' ? 'ssh://host.invalid/x' : root);
  git('config', ...setting());
  git('config', 'protocol.allow', 'always');
  git('config', 'core.repositoryformatversion', '1');
  git('config', 'extensions.partialClone', 'origin');
  git('config', 'remote.origin.promisor', 'true');
  for (const path of ['rendered/cluster.yaml', 'allocations/a.yaml', 'web.yaml']) {
    const id = git('rev-parse', `HEAD:${path}`).trim();
    rmSync(join(root, '.git/objects', id.slice(0, 2), id.slice(2)));
  }
  expect(askAll()).toMatchObject([
    { code: 'INPUT_UNREADABLE' },
    { problems: [{ code: 'INPUT_UNREADABLE' }] },
    undefined,
    { files: { code: 'BUNDLE_UNKNOWN_NODE' } },
  ]);
  expect(existsSync(marker())).toBe(false);
});
