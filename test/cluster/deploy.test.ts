import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { defaultConfig } from '../../packages/applier/src/config.ts';
import { buildProgram } from '../../packages/sluice/src/program.ts';
import { eventRule } from '../../packages/renderer/src/cluster/watch/events.ts';
import { leaseRule } from '../../packages/renderer/src/cluster/watch/lease.ts';

const deploy = join(import.meta.dirname, '..', '..', 'deploy');
const read = (file: string): string => readFileSync(join(deploy, file), 'utf8');

interface DeployManifest {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly rules?: readonly unknown[];
  readonly roleRef?: { readonly kind: string; readonly name: string };
  readonly subjects?: readonly { readonly name: string; readonly namespace: string }[];
  readonly spec?: { readonly template: { readonly spec: PodTemplateSpec } };
}
interface PodTemplateSpec {
  readonly securityContext: Readonly<Record<string, unknown>>;
  readonly containers: readonly ContainerSpec[];
  readonly initContainers: readonly ContainerSpec[];
}
interface ContainerSpec {
  readonly args?: readonly string[];
  readonly command?: readonly string[];
  readonly volumeMounts?: readonly { readonly mountPath: string }[];
  readonly env?: readonly { readonly name: string; readonly value: string }[];
  readonly securityContext: Readonly<Record<string, unknown>>;
}

const manifests = ['clusterrole.yaml', 'watch.yaml'].flatMap((file) =>
  parseAllDocuments(read(file)).map((document) => document.toJS() as DeployManifest),
);
const named = (kind: string, name: string): DeployManifest | undefined =>
  manifests.find((manifest) => manifest.kind === kind && manifest.metadata.name === name);

test('the roles for Events and the Lease are the rules that the messages name', () => {
  expect(named('ClusterRole', 'sluice-events')?.rules).toEqual([parse(eventRule)]);
  expect(named('Role', 'sluice-lease')?.rules).toEqual([parse(leaseRule)]);
});

test('every binding binds an existing role to the account of the pods', () => {
  const bindings = manifests.filter(({ kind }) => kind.endsWith('Binding'));
  expect(bindings).toHaveLength(4);
  for (const { roleRef, subjects } of bindings) {
    expect(named(roleRef?.kind ?? '', roleRef?.name ?? '')).toBeDefined();
    for (const { name, namespace } of subjects ?? []) {
      expect(named('ServiceAccount', name)?.metadata.namespace).toBe(namespace);
    }
  }
});

test('a watch that serves may read what any watch reads, and hold the Lease, and nothing else', () => {
  const serving = parseAllDocuments(read('watch-serve.yaml')).map((document) => document.toJS() as DeployManifest);
  expect(serving.flatMap(({ rules = [] }) => rules)).toEqual([parse(leaseRule)]);
  const bound = serving.flatMap(({ roleRef }) => (roleRef ? [`${roleRef.kind} ${roleRef.name}`] : []));
  expect(bound.toSorted()).toEqual(['ClusterRole sluice-reader', 'Role sluice-lease', 'Role sluice-reader']);
  const args = serving.find(({ kind }) => kind === 'Deployment')?.spec?.template.spec.containers[0]?.args ?? [];
  expect(args).toContain('--lease=sluice/sluice-watch');
  expect(args).not.toContain('--events');
});

const pods = named('Deployment', 'sluice-watch')?.spec?.template.spec;

test('pods meet the restricted standard, with a read-only root', () => {
  expect(pods?.securityContext).toMatchObject({ runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } });
  const containers = [...(pods?.containers ?? []), ...(pods?.initContainers ?? [])];
  expect(containers).toHaveLength(2);
  for (const { securityContext } of containers) {
    expect(securityContext).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    });
  }
});

/** The options of `sluice watch` from its help. */
function knownOptions(): readonly string[] {
  const watch = buildProgram().commands.find((command) => command.name() === 'watch');
  return watch?.options.flatMap(({ long }) => long ?? []) ?? [];
}

test.each<[string, string[]]>([
  ['the Deployment', (pods?.containers[0]?.args ?? []).slice(1)],
  ['the systemd unit', (/^ExecStart=\S+ watch (.*)$/m.exec(read('sluice-watch.service'))?.[1] ?? '').split(' ')],
  ...(['node', 'live'] as const).map((name): [string, string[]] => [
    `the drop-in ${name}.conf`,
    (/^ExecStart=\S+ watch (.*)$/m.exec(read(`sluice-watch.service.d/${name}.conf`))?.[1] ?? '').split(' '),
  ]),
  ...['node-watch.yaml', 'node-live.yaml', 'watch-serve.yaml'].map((name): [string, string[]] => [
    name,
    [...read(name).matchAll(/^ {12}- (--\S+)$/gm)].map(([, option = '']) => option),
  ]),
])('%s uses known options only', (_title, args) => {
  expect(args.length).toBeGreaterThan(2);
  for (const arg of args) expect(knownOptions()).toContain(arg.replace(/=.*/, ''));
});

test('the pods write to volumes only', () => {
  for (const { env, volumeMounts } of [...(pods?.containers ?? []), ...(pods?.initContainers ?? [])]) {
    const mounts = volumeMounts?.map(({ mountPath }) => mountPath) ?? [];
    const written = [
      ...(env ?? []).filter(({ name }) => name === 'HOME').map(({ value }) => value),
      ...(pods?.containers[0]?.args ?? []).flatMap((arg) => /^--output=(.*)$/.exec(arg)?.[1] ?? []),
    ];
    expect(written).toHaveLength(2);
    for (const path of written) expect(mounts.some((mount) => `${path}/`.startsWith(`${mount}/`))).toBe(true);
  }
});

test('the init container clones once, updates a clone, and replaces an incomplete one', () => {
  const dir = mkdtempSync(join(tmpdir(), 'sluice-deploy-'));
  const git = (...args: readonly string[]): string => execFileSync('git', args, { cwd: dir, encoding: 'utf8' });
  git('init', '--quiet', '--initial-branch=main', 'origin');
  const who = ['-c', 'user.name=t', '-c', 'user.email=t@example.com'];
  git('-C', 'origin', ...who, 'commit', '--quiet', '--allow-empty', '--message', 'start');
  const [shell = '', options = '', script = ''] = pods?.initContainers[0]?.command ?? [];
  const here = script.replaceAll('/work/', `${dir}/`).replace(/https:\S+/, join(dir, 'origin'));
  const run = (): unknown => execFileSync(shell, [options, here], { stdio: 'pipe' });
  run();
  writeFileSync(join(dir, 'rules/kept'), '');
  run();
  expect(readdirSync(join(dir, 'rules')).toSorted()).toEqual(['.git', 'kept']);
  rmSync(join(dir, 'rules/.git/HEAD'));
  run();
  expect(git('-C', 'rules', 'log', '--format=%s').trim()).toBe('start');
  rmSync(dir, { recursive: true });
});

test('Git reads passwords from .git-credentials in its home, as the manifest says', () => {
  const dir = mkdtempSync(join(tmpdir(), 'sluice-deploy-'));
  writeFileSync(join(dir, '.git-credentials'), 'https://sluice:secret@git.example.com\n', { mode: 0o600 });
  const asked = 'protocol=https\nhost=git.example.com\npath=network/rules.git\n\n';
  for (const { env } of [...(pods?.containers ?? []), ...(pods?.initContainers ?? [])]) {
    const given = Object.fromEntries((env ?? []).map(({ name, value }) => [name, value]));
    const whole = { PATH: process.env['PATH'], GIT_TERMINAL_PROMPT: '0', ...given, HOME: dir };
    const said = execFileSync('git', ['credential', 'fill'], { input: asked, encoding: 'utf8', env: whole });
    expect(said).toContain('password=secret');
  }
  rmSync(dir, { recursive: true });
});

test('the systemd unit writes to directories of its account, outside of the state of sluiced', () => {
  const unit = read('sluice-watch.service');
  const state = /^StateDirectory=(\S+)$/m.exec(unit)?.[1];
  const output = /--output=(\S+)/.exec(unit)?.[1];
  expect(output).toBe(`/var/lib/${state}/rendered`);
  expect(`${output}/`).not.toContain(`${defaultConfig('node-a').state}/`);
});
