// @module-tag test
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Command } from 'commander';
import { execa } from 'execa';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { buildProgram } from '../../packages/sluice/src/program.ts';
import { sluice } from './repository.ts';

/** The output of a verb: its data on stdout, the rest on stderr. */
interface VerbRow {
  readonly verb: string;
  readonly args: string;
  readonly exit?: number;
  /** The expected stdout; absent: nothing. */
  readonly stdout?: RegExp;
  /** The expected stderr; absent: nothing. */
  readonly stderr?: RegExp;
  readonly input?: string;
  /** On a terminal it shows its progress. */
  readonly progress?: true;
}

const manifests = '-f manifests -R -c sluice.yaml';
const list = 'apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems: []\n';

const rows: readonly VerbRow[] = [
  { verb: 'render', args: `${manifests} -o fresh`, stderr: /^fresh: \d+ files, \d+ written/, progress: true },
  { verb: 'render', args: `${manifests} -o rendered --check`, stderr: /is up to date/, progress: true },
  {
    verb: 'render',
    args: '-f other -R -c sluice.yaml -o rendered --check',
    exit: 1,
    stdout: /^--- a\//m,
    stderr: /\[OUTPUT_STALE\]/,
    progress: true,
  },
  {
    verb: 'render',
    args: '-f - -o alone',
    input: 'apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {clusterIP: 10.96.0.10, ports: [{port: 80}]}\n',
    stderr: /\[NODES_MISSING\][^]*^Partial: .*--allow-partial/m,
    progress: true,
  },
  { verb: 'render', args: '-f nowhere -o fresh', exit: 2, stderr: /\[INPUT_UNREADABLE\]/, progress: true },
  { verb: 'validate', args: manifests, stderr: /objects read: no problems/, progress: true },
  { verb: 'init', args: 'new.yaml', stderr: /^Wrote new\.yaml/ },
  { verb: 'snapshot', args: '--kubeconfig nowhere -o -', exit: 2, stderr: /\[CLUSTER_ACCESS\]/ },
  { verb: 'watch', args: '--kubeconfig nowhere -o fresh', exit: 2, stderr: /\[CLUSTER_ACCESS\]/ },
  { verb: 'show', args: '--node node-1', stdout: /^\*nat$/m, stderr: /^note: only the node knows / },
  { verb: 'ls', args: '-o json', stdout: /^\{/, progress: true },
  { verb: 'diff', args: 'rendered changed', exit: 1, stdout: /^1 Service added/m, progress: true },
  { verb: 'diff', args: 'rendered rendered -o json', stdout: /^\{/, progress: true },
  {
    verb: 'trace',
    args: '--node node-1 --from 192.0.2.11 --to 10.101.96.206:9000/tcp',
    stdout: /shop\/api/,
    progress: true,
  },
  {
    verb: 'trace',
    args: '--at nowhere --node node-1 --from 192.0.2.11 --to 10.101.96.206:9000/tcp',
    exit: 2,
    stderr: /\[INPUT_UNREADABLE\]/,
    progress: true,
  },
  {
    verb: 'bisect',
    args: '--from nowhere -- trace --node node-1 --from 192.0.2.11 --to 10.101.96.206:9000/tcp',
    exit: 2,
    stderr: /\[INPUT_UNREADABLE\]/,
  },
  { verb: 'prove', args: 'rendered', stdout: /The rules implement all Services as declared/, progress: true },
  {
    verb: 'parity',
    args: 'nowhere.json rendered',
    exit: 2,
    stderr: /\[(?:INPUT_UNREADABLE|OBSERVATION_INVALID)\]/,
    progress: true,
  },
  { verb: 'explain', args: 'KUBE-SERVICES', stdout: /KUBE-SERVICES/, progress: true },
  { verb: 'doctor', args: manifests, stdout: /^all Services: no cause found$/m, progress: true },
  { verb: 'cost', args: 'rendered -c sluice.yaml', stdout: /^PROFILE .* RULES/, progress: true },
  { verb: 'policy', args: 'rendered -c sluice.yaml --today 2026-11-21 -o sarif', stdout: /^\{/, progress: true },
  { verb: 'what-if', args: 'rendered', stdout: /^\d+ failures of \d+ nodes/m, progress: true },
  { verb: 'report', args: 'rendered changed -o markdown', exit: 1, stdout: /^<!-- sluice/, progress: true },
  { verb: 'krm', args: '', input: list, stdout: /^kind: ResourceList$/m },
  {
    verb: 'release',
    args: 'changed --serial auto --source 3f2a4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d -o out',
    stdout: /^1\n$/,
    stderr: /^out: release 1 of /m,
    progress: true,
  },
  { verb: 'sign', args: 'rendered --key nowhere', exit: 2, stderr: /\[RELEASE_INVALID\]/ },
  { verb: 'verify', args: 'rendered --allowed-signers nowhere', exit: 2, stderr: /\[RELEASE_INVALID\]/ },
  { verb: 'pack', args: 'rendered --all -o x.tar.zst', exit: 2, stderr: /\[RELEASE_INVALID\]/, progress: true },
  { verb: 'push', args: 'rendered nowhere:1', exit: 2, stderr: /\[REGISTRY_INVALID\]/ },
  { verb: 'pull', args: '127.0.0.1:1/x:1 -o out', exit: 2, stderr: /\[REGISTRY_INVALID\]/ },
  { verb: 'certify', args: 'nowhere.json --key nowhere', exit: 2, stderr: /\[INPUT_UNREADABLE\]/ },
  { verb: 'adopt-plan', args: 'nowhere.json', exit: 2, stderr: /\[INPUT_UNREADABLE\]/ },
  { verb: 'promote', args: 'rendered', exit: 2, stderr: /\[RELEASE_INVALID\]/ },
  {
    verb: 'fleet',
    args: 'manifests --allowed-receipts /dev/null',
    exit: 1,
    stdout: /^no receipt mentions a release; 0 nodes known$/m,
    progress: true,
  },
  {
    verb: 'fleet',
    args: 'manifests --allowed-receipts /dev/null --parity manifests/shop/*.yaml',
    exit: 2,
    stderr: /\[PARITY_REPORT_INVALID\]/,
    progress: true,
  },
  { verb: 'allocations fix', args: '-c sluice.yaml --base-branch nowhere', exit: 2, stderr: /^error: / },
  { verb: 'allocations manifests', args: manifests, stdout: /^ {2}clusterIP: /m, progress: true },
  { verb: 'allocations prune', args: manifests, stderr: /^All allocations in /m, progress: true },
  { verb: 'version', args: '', stdout: /^sluice \d+\.\d+\.\d+-dev \(/ },
  { verb: 'completion', args: 'bash', stdout: /^complete -F/m },
];

test('the table has every verb', () => {
  const leaves = (command: Command, path: readonly string[]): readonly string[] =>
    command
      .createHelp()
      .visibleCommands(command)
      .filter((sub) => sub.name() !== 'help')
      .flatMap((sub) => {
        const name = [...path, sub.name()];
        return sub.commands.length === 0 ? [name.join(' ')] : leaves(sub, name);
      });
  expect([...new Set(rows.map(({ verb }) => verb))].toSorted()).toEqual(leaves(buildProgram(), []).toSorted());
});

let home: string;
beforeAll(async () => {
  home = mkdtempSync(join(tmpdir(), 'sluice-conventions-'));
  const example = join(import.meta.dirname, '..', '..', 'examples', 'gitops');
  const start = join(home, 'start');
  cpSync(example, start, { recursive: true });
  // Git keeps no .sluice-complete: outside of a work tree the directory is complete after the last write.
  await execa(sluice, ['render', '-f', 'manifests', '-R', '-c', 'sluice.yaml', '-o', 'rendered'], { cwd: start });
  cpSync(join(start, 'manifests'), join(start, 'other'), { recursive: true });
  cpSync(join(start, 'pull-request', 'manifests'), join(start, 'other'), { recursive: true });
  // In a directory of its own: its allocations do not affect the other rows.
  cpSync(start, join(home, 'changed'), { recursive: true });
  const args = ['render', '-f', 'other', '-R', '-c', 'sluice.yaml', '-o', join(start, 'changed')];
  await execa(sluice, args, { cwd: join(home, 'changed') });
}, 60_000);
afterAll(() => rmSync(home, { recursive: true }));

interface VerbOutput {
  readonly exit: number | undefined;
  readonly stdout: string;
  readonly stderr: string;
}

const options = (dir: string) => ({ cwd: dir, reject: false, stripFinalNewline: false, timeout: 30_000 }) as const;

/** In a pipeline: no terminal, no input. */
async function piped({ verb, args, input = '' }: VerbRow, dir: string): Promise<VerbOutput> {
  const ran = await execa('bash', ['-c', `"$SLUICE" ${verb} ${args}`], {
    ...options(dir),
    input,
    env: { SLUICE: sluice },
  });
  return { exit: ran.exitCode, stdout: ran.stdout, stderr: ran.stderr };
}

const pipedRuns = new Map<number, Promise<VerbOutput>>();

/** One run for both tests of a row. */
function pipedOnce(row: VerbRow, at: number): Promise<VerbOutput> {
  const known = pipedRuns.get(at) ?? piped(row, fresh(`piped-${at}`));
  pipedRuns.set(at, known);
  return known;
}

/** On a terminal without colours, with stdout in a file. */
async function atTerminal({ verb, args, input = '' }: VerbRow, dir: string): Promise<VerbOutput> {
  const command = `printf %s "$INPUT" | "$SLUICE" ${verb} ${args} >"$OUT"`;
  const out = `${dir}.out`;
  const env = { SLUICE: sluice, INPUT: input, OUT: out, NO_COLOR: '1', TERM: 'xterm-256color', SHELL: '/bin/sh' };
  const ran = await execa('script', ['-qec', command, '/dev/null'], { ...options(dir), stdin: 'ignore', env });
  return { exit: ran.exitCode, stdout: readFileSync(out, 'utf8'), stderr: ran.stdout.replaceAll('\r\n', '\n') };
}

function fresh(name: string): string {
  const dir = join(home, name);
  cpSync(join(home, 'start'), dir, { recursive: true });
  return dir;
}

/** The progress line, and its removal. */
// oxlint-disable-next-line eslint/no-control-regex -- control characters are what it matches
const progressLine = /[^\n\r]* …\r\u001B\[K/g;
// oxlint-disable-next-line eslint/no-control-regex -- the same
const escape = /[\u001B\r]/;
const script = existsSync('/usr/bin/script');

test.for(rows.map((row, at) => ({ ...row, at })))(
  'sluice $verb $args: data on stdout, the rest on stderr, no escape sequence without a terminal',
  { timeout: 60_000 },
  async (row) => {
    const { exit, stdout, stderr } = await pipedOnce(row, row.at);
    expect(exit).toBe(row.exit ?? 0);
    expect(stdout).toMatch(row.stdout ?? /^$/);
    expect(stderr).toMatch(row.stderr ?? /^$/);
    expect(stdout + stderr).not.toMatch(escape);
  },
);

test.skipIf(!script).for(rows.map((row, at) => ({ ...row, at })))(
  '(needs script) sluice $verb $args: a terminal gets the same and the progress, without colour',
  { timeout: 60_000 },
  async (row) => {
    const plain = await pipedOnce(row, row.at);
    const seen = await atTerminal(row, fresh(`seen-${row.at}`));
    expect(seen.stderr.match(progressLine) !== null).toBe(row.progress === true);
    expect({ ...seen, stderr: seen.stderr.replaceAll(progressLine, '') }).toEqual(plain);
  },
);
