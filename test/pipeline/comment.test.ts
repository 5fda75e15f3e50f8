import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { execa } from 'execa';
import { afterEach, beforeEach, expect, test } from 'vitest';

const integrations = join(import.meta.dirname, '..', '..', 'integrations');
const mark = '<!-- sluice: report -->';
const body = `${mark}\n### Sluice: Nothing changes\n`;

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'sluice-comment-'));
  writeFileSync(join(dir, 'comment.md'), body);
});
afterEach(() => rmSync(dir, { recursive: true }));

/** A fake command that answers with a text, and records its arguments and the file of its last `-F`. */
function fake(name: string, script: string): void {
  const keep = `printf '%s\\n' "$*" >>${dir}/calls\nfor word; do case $word in *=@*) cp "\${word#*=@}" ${dir}/sent ;; esac; done\n`;
  writeFileSync(join(dir, name), `#!/bin/sh\n${keep}${script}\n`);
  chmodSync(join(dir, name), 0o755);
}

async function run(
  script: string,
  ...files: readonly string[]
): Promise<{ exit: number; output: string; calls: readonly string[] }> {
  const env = {
    PATH: `${dir}:${process.env['PATH'] ?? ''}`,
    GITHUB_REPOSITORY: 'shop/rules',
    PULL_REQUEST: '7',
    SARIF_COMMIT: 'c0ffee',
    SARIF_REF: 'refs/pull/7/merge',
    GITLAB_TOKEN: 'x',
    CI_PROJECT_ID: '3',
    CI_MERGE_REQUEST_IID: '9',
  };
  const ran = await execa(
    join(integrations, script),
    files.map((file) => join(dir, file)),
    { env, reject: false, all: true },
  );
  const calls = existsSync(join(dir, 'calls')) ? readFileSync(join(dir, 'calls'), 'utf8').trim().split('\n') : [];
  return { exit: ran.exitCode ?? -1, output: ran.all, calls };
}

const sent = (): string => readFileSync(join(dir, 'sent'), 'utf8');

test('the first comment of a pull request on GitHub is a new one', async () => {
  fake('gh', 'exit 0');
  const { exit, calls } = await run('github/comment.sh', 'comment.md');
  expect(exit).toBe(0);
  expect(calls[0]).toContain('select(.user.type == "Bot" and (.body | startswith("<!-- sluice: report -->")))');
  expect(calls[1]).toContain('--method POST repos/shop/rules/issues/7/comments');
  expect(sent()).toBe(body);
});

test('the next one replaces it', async () => {
  fake('gh', 'case $* in *--jq*) printf "41\\n42\\n" ;; esac');
  const { exit, calls } = await run('github/comment.sh', 'comment.md');
  expect(exit).toBe(0);
  expect(calls).toHaveLength(2);
  expect(calls[1]).toContain('--method PATCH repos/shop/rules/issues/comments/41');
});

test('a fork without the right to comment does not fail', async () => {
  fake('gh', 'echo "HTTP 403" >&2; exit 1');
  const { exit, output } = await run('github/comment.sh', 'comment.md');
  expect(exit).toBe(0);
  expect(output).toContain('::warning::');
});

test('without a comparison there is no comment', async () => {
  fake('gh', 'exit 1');
  const { exit, calls } = await run('github/comment.sh', 'none.md');
  expect({ exit, calls }).toEqual({ exit: 0, calls: [] });
});

test('findings are uploaded compressed, as the API requires', async () => {
  writeFileSync(join(dir, 'policy.sarif'), '{"version":"2.1.0"}');
  fake('gh', 'exit 0');
  const { exit, calls } = await run('github/sarif.sh', 'policy.sarif');
  expect(exit).toBe(0);
  expect(calls[0]).toContain('repos/shop/rules/code-scanning/sarifs -f commit_sha=c0ffee -f ref=refs/pull/7/merge');
  expect(gunzipSync(Buffer.from(sent(), 'base64')).toString()).toBe('{"version":"2.1.0"}');
});

test('findings of each observed node are uploaded, and one that is refused does not stop the others', async () => {
  for (const name of ['parity-node-1', 'policy']) writeFileSync(join(dir, `${name}.sarif`), '{"version":"2.1.0"}');
  fake('gh', `case $* in *parity-node-1*) exit 1 ;; esac`);
  const { exit, calls, output } = await run('github/sarif.sh', 'parity-node-1.sarif', 'none.sarif', 'policy.sarif');
  expect({ exit, uploads: calls.length }).toEqual({ exit: 0, uploads: 2 });
  expect(output).toContain(
    '::warning::Cannot upload the findings to code scanning; parity-node-1.sarif is in the artifact',
  );
});

test.each([
  ['updates its own note', [{ id: 5, author: { id: 1 }, body }], '--method PUT projects/3/merge_requests/9/notes/5'],
  [
    'leaves a foreign note with its mark alone',
    [{ id: 5, author: { id: 2 }, body }],
    '--method POST projects/3/merge_requests/9/notes',
  ],
  ['creates a note if there is none', [], '--method POST projects/3/merge_requests/9/notes'],
])('on GitLab %s', async (_title, notes, expected) => {
  const pages = `[{"id":1,"author":{"id":1},"body":"hello ] ["}]\n${JSON.stringify(notes)}`;
  writeFileSync(join(dir, 'pages'), pages);
  fake('glab', `case $* in "api user") echo '{"id":1}' ;; *paginate*) cat ${dir}/pages ;; esac`);
  const { exit, calls } = await run('gitlab/comment.sh', 'comment.md');
  expect(exit).toBe(0);
  expect(calls.at(-1)).toContain(expected);
  expect(sent()).toBe(body);
});
