// @module-tag all
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execaSync } from 'execa';
import { afterEach, expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { readConfig } from '../../packages/applier/src/config.ts';
import { need, needSchemas } from './programs.ts';

const deploy = join(import.meta.dirname, '..', '..', 'deploy');
const folder = mkdtempSync(join(tmpdir(), 'sluice-chart-'));
afterEach(() => rmSync(join(folder, 'values.yaml'), { force: true }));

interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly data?: Readonly<Record<string, string>>;
}

const objectsIn = (text: string): readonly Manifest[] =>
  parseAllDocuments(text, { merge: true }).flatMap((document) => (document.toJS() as Manifest | null) ?? []);
const keyOf = ({ kind, metadata: { namespace = '', name } }: Manifest): string => `${kind} ${namespace}/${name}`;
const byKey = (objects: readonly Manifest[]): ReadonlyMap<string, Manifest> =>
  new Map(objects.map((one) => [keyOf(one), one] as const).toSorted(([a], [b]) => (a < b ? -1 : 1)));

/** `helm template` with these values. */
function rendered(helm: string, values = ''): string {
  writeFileSync(join(folder, 'values.yaml'), values);
  const args = [
    'template',
    'sluice',
    join(deploy, 'chart'),
    '--kube-version',
    '1.37.0',
    '--namespace',
    'sluice',
    '-f',
    join(folder, 'values.yaml'),
  ];
  return execFileSync(helm, args, { encoding: 'utf8', stdio: 'pipe', env: { PATH: '/usr/bin', HOME: folder } });
}

const accepted = (program: string, schemas: string, text: string) =>
  execaSync(program, ['-strict', '-summary', '-schema-location', schemas, '-kubernetes-version', '1.37.0', '-'], {
    input: text,
    reject: false,
  });

test('the chart has the objects of the plain manifests', async (context) => {
  const helm = await need(context, 'helm');
  const plain = ['clusterrole.yaml', 'watch.yaml', 'sluiced.yaml'].flatMap((name) =>
    objectsIn(readFileSync(join(deploy, name), 'utf8')),
  );
  // helm makes the namespace of the release.
  const expected = plain.filter((one) => keyOf(one) !== 'Namespace /sluice');
  expect(expected.length).toBeGreaterThan(10);
  // A changed config restarts the pods; the plain manifest has no digest of it.
  const text = rendered(helm);
  const digest = / *annotations: \{ checksum\/config: [0-9a-f]{64} \}\n/;
  expect(text).toMatch(digest);
  expect(byKey(objectsIn(text.replace(digest, '')))).toEqual(byKey(expected));
});

test.for([
  ['the defaults', ''],
  ['no watcher', 'watch: { enabled: false }\n'],
  ['no DaemonSet', 'sluiced: { enabled: false }\n'],
  [
    'other values',
    'watch: { replicas: 1 }\nsluiced: { rehearse: false, nodeSelector: { a: b }, tolerations: [], config: { layout: flat }, allowedSigners: "a namespaces=\\"sluice-release\\" ssh-ed25519 AAAA" }\n',
  ],
] as const)('kubeconform accepts the chart with %s', async ([, values], context) => {
  const [helm, kubeconform] = [await need(context, 'helm'), await need(context, 'kubeconform')];
  const { stdout, exitCode } = accepted(kubeconform, needSchemas(context), rendered(helm, values));
  expect({ stdout, exitCode }).toMatchObject({
    exitCode: 0,
    stdout: expect.stringMatching(/Invalid: 0, Errors: 0, Skipped: 0$/),
  });
});

test('kubeconform refuses a field that Kubernetes does not have', async (context) => {
  const kubeconform = await need(context, 'kubeconform');
  const text = readFileSync(join(deploy, 'sluiced.yaml'), 'utf8').replace('hostNetwork: true', 'hostNetworking: true');
  expect(accepted(kubeconform, needSchemas(context), text)).toMatchObject({ exitCode: 1 });
});

test.for([
  ['a repository that a shell would run', 'watch: { repository: "https://x; reboot" }\n'],
  ['a field that the chart sets itself', 'sluiced: { config: { node: x } }\n'],
  ['an unknown value', 'sluiced: { privileged: true }\n'],
])('helm refuses %s', async ([, values], context) => {
  const helm = await need(context, 'helm');
  expect(() => rendered(helm, values)).toThrow(/values don't meet the specifications/);
});

test('helm lints the chart', async (context) => {
  const helm = await need(context, 'helm');
  const linted = execFileSync(helm, ['lint', '--strict', join(deploy, 'chart')], {
    encoding: 'utf8',
    env: { PATH: '/usr/bin', HOME: folder },
  });
  expect(linted).toContain('0 chart(s) failed');
});

/** The capabilities of every container, by its name. */
const capabilities = (objects: readonly Manifest[]): unknown =>
  objects.flatMap((one) => {
    const { spec } = one as unknown as { spec?: { template?: { spec?: Record<string, readonly Container[]> } } };
    const pod = spec?.template?.spec;
    return [...(pod?.['initContainers'] ?? []), ...(pod?.['containers'] ?? [])].map(({ name, securityContext }) => [
      name,
      securityContext.capabilities.drop,
      securityContext.capabilities.add ?? [],
      securityContext.allowPrivilegeEscalation,
      securityContext.readOnlyRootFilesystem,
    ]);
  });

interface Container {
  readonly name: string;
  readonly securityContext: {
    readonly allowPrivilegeEscalation: boolean;
    readonly readOnlyRootFilesystem: boolean;
    readonly capabilities: { readonly drop: readonly string[]; readonly add?: readonly string[] };
  };
}

test('only sluiced has capabilities: those of its unit, and SYS_ADMIN for rehearsals', () => {
  const text = readFileSync(join(deploy, 'sluiced.yaml'), 'utf8');
  expect(capabilities(objectsIn(text))).toEqual([
    ['config', ['ALL'], [], false, true],
    ['sluiced', ['ALL'], ['NET_ADMIN', 'NET_RAW', 'SYS_ADMIN'], false, true],
    ['releases', ['ALL'], [], false, true],
  ]);
  const page = readFileSync(join(deploy, '..', 'docs', 'daemonset.md'), 'utf8');
  for (const word of ['NET_ADMIN', 'NET_RAW', 'SYS_ADMIN', 'hostNetwork', 'hostPath', 'runAsUser: 0'])
    expect(page).toContain(`| \`${word}\``);
  expect(text).not.toMatch(/privileged: true|hostPID|hostIPC/);
});

test('sluiced reads the config that the first container writes', () => {
  const config = objectsIn(readFileSync(join(deploy, 'sluiced.yaml'), 'utf8')).find(({ kind }) => kind === 'ConfigMap');
  const text = `${config?.data?.['sluiced.yaml']}node: "123"\n`;
  expect(readConfig('sluiced.yaml', text)).toMatchObject({ node: '123', rehearse: 'namespace' });
});
