import { accessSync, constants, cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';
import { expect, onTestFinished, test } from 'vitest';
import { parse } from 'yaml';
import { commentMark } from '../../packages/review/src/emit/report/markdown.ts';
import { sluice } from './repository.ts';

const root = join(import.meta.dirname, '..', '..');
const read = (path: string): string => readFileSync(join(root, path), 'utf8');

interface WorkflowStep {
  readonly name?: string;
  readonly uses?: string;
  readonly run?: string;
  readonly shell?: string;
}

const action = parse(read('integrations/github/action.yml')) as {
  readonly runs: { readonly steps: readonly WorkflowStep[] };
};
const workflow = parse(read('examples/gitops/.github/workflows/rules.yml')) as {
  readonly permissions: Readonly<Record<string, string>>;
  readonly jobs: { readonly review: { readonly steps: readonly WorkflowStep[] } };
};
const steps = [...action.runs.steps, ...workflow.jobs.review.steps];

test('every third-party action is pinned to a full commit', () => {
  const foreign = steps.flatMap(({ uses }) => (uses === undefined || uses.startsWith('./') ? [] : [uses]));
  expect(foreign).not.toEqual([]);
  for (const uses of foreign) expect(uses).toMatch(/^[\w.-]+\/[\w./-]+@[0-9a-f]{40}$/);
});

test('no text of a pull request becomes part of a script, and no step needs a secret', () => {
  for (const { run = '' } of steps) expect(run).not.toContain('${{');
  const texts = ['integrations/github/action.yml', 'examples/gitops/.github/workflows/rules.yml'].map(read);
  expect(texts.join('\n')).not.toMatch(/secrets\.|pull_request_target/);
  expect(workflow.permissions).toEqual({ contents: 'read', 'pull-requests': 'write', 'security-events': 'write' });
});

const scripts = [
  'review.sh',
  'pre-commit.sh',
  'kubectl-diff',
  'kustomize/sluice-krm',
  'github/comment.sh',
  'github/sarif.sh',
  'gitlab/comment.sh',
];

test.each(scripts)('integrations/%s is a portable shell script', async (name) => {
  const path = join(root, 'integrations', name);
  accessSync(path, constants.X_OK);
  expect((await execa('/bin/sh', ['-n', path])).stderr).toBe('');
});

test.each(['github/comment.sh', 'gitlab/comment.sh'])(
  '%s searches for the mark at the beginning of reports',
  (name) => {
    expect(read(`integrations/${name}`)).toContain(`mark='${commentMark}'\n`);
  },
);

test('the scripts of the GitLab template are portable', async () => {
  const template = parse(read('integrations/gitlab/sluice.gitlab-ci.yml')) as Record<
    string,
    Record<string, readonly string[]>
  >;
  const job = template['sluice review'] ?? {};
  for (const text of [...(job['before_script'] ?? []), ...(job['script'] ?? [])]) {
    expect((await execa('/bin/sh', ['-n'], { input: text })).stderr).toBe('');
  }
});

test('kustomize/sluice-krm passes its list to sluice krm and exits with its code', async () => {
  const script = join(root, 'integrations', 'kustomize', 'sluice-krm');
  const list = 'apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems: []\n';
  const run = async (input: string) => {
    const ran = await execa(script, { input, env: { SLUICE: sluice }, reject: false, stripFinalNewline: false });
    return { exit: ran.exitCode, stdout: ran.stdout };
  };
  expect(await run(list)).toEqual({ exit: 0, stdout: list });
  expect(await run('kind: Service')).toEqual({ exit: 2, stdout: '' });
});

interface PreCommitHook {
  readonly id: string;
  readonly entry: string;
  readonly args: readonly string[];
}

test('the pre-commit hooks rewrite stale files, fail once, and pass at the next commit', {
  timeout: 60_000,
}, async () => {
  const hooks = parse(read('.pre-commit-hooks.yaml')) as readonly PreCommitHook[];
  const dir = mkdtempSync(join(tmpdir(), 'sluice-hook-'));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  cpSync(join(root, 'examples', 'gitops'), dir, { recursive: true });
  const hook = async (id: string): Promise<number | undefined> => {
    const { entry, args } = hooks.find((one) => one.id === id)!;
    const [script = '', ...words] = entry.split(' ');
    const ran = await execa(join(root, script), [...words, ...args], {
      cwd: dir,
      env: { SLUICE: sluice },
      reject: false,
    });
    return ran.exitCode;
  };
  expect(await hook('sluice-check')).toBe(0);
  const manifest = join(dir, 'manifests', 'shop', 'web.yaml');
  writeFileSync(manifest, readFileSync(manifest, 'utf8').replace('port: 80,', 'port: 81,'));
  expect(await hook('sluice-check')).toBe(1);
  expect(await hook('sluice-render')).toBe(1);
  expect(await hook('sluice-render')).toBe(0);
  expect(await hook('sluice-check')).toBe(0);
});
