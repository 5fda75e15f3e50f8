// @module-tag all
import { execFileSync } from 'node:child_process';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { execaSync } from 'execa';
import { expect, test, type TestContext } from 'vitest';
import { parse } from 'yaml';
import { readConfig, type SluicedConfig } from '../../packages/applier/src/config.ts';
import type { TestApi } from '../cluster/api.fixture.ts';
import { realApi } from '../cluster/real-api.fixture.ts';
import { apiServerPrograms } from '../parity/binaries.ts';
import {
  byKey,
  daemonSetIn,
  deploy,
  folder,
  keyOf,
  type Manifest,
  type NodeContainer,
  objectsIn,
  rendered,
} from './chart.fixture.ts';
import { need, needSchemas } from './programs.ts';

/** An object without the labels that Helm asks for, which plain manifests do not have. */
const unlabelled = (one: unknown): unknown =>
  JSON.parse(JSON.stringify(one), (key, value: Readonly<Record<string, string>>) => {
    if (key !== 'labels') return value;
    const own = Object.entries(value).filter(([name]) => !/^(?:app\.kubernetes\.io|helm\.sh)\//.test(name));
    return own.length === 0 ? undefined : Object.fromEntries(own);
  });

const accepted = (program: string, schemas: string, text: string) =>
  execaSync(program, ['-strict', '-summary', '-schema-location', schemas, '-kubernetes-version', '1.37.0', '-'], {
    input: text,
    reject: false,
  });

const fetchSource = 'fetch: { source: { oci: { reference: "registry.example.com/sluice/shop:production" } } }\n';
/** Live endpoints on nodes alone. */
const live = (delivery: string): string =>
  `delivery: ${delivery}\n${fetchSource}apiServer: { host: api.example.com }\nwatch: { enabled: false }\nsluiced: { live: { enabled: true } }\n`;
const serve = `delivery: fetch\n${fetchSource}watch: { serve: { secret: watch } }\n`;

test.for([
  ['node', ['node-watch.yaml'], 'apiServer: { host: api.example.com }\n'],
  ['git', ['clusterrole.yaml', 'watch.yaml', 'sluiced.yaml'], 'delivery: git\n'],
  ['fetch', ['clusterrole.yaml', 'watch.yaml', 'node-fetch.yaml'], `delivery: fetch\n${fetchSource}`],
  ['fetch and live endpoints', ['node-live.yaml'], live('fetch')],
  ['fetch and a watch that serves', ['clusterrole.yaml', 'watch-serve.yaml'], `${serve}sluiced: { enabled: false }\n`],
] as const)('with delivery %s the chart has the objects of the plain manifests', async ([, names, values], context) => {
  const helm = await need(context, 'helm');
  const plain = names.flatMap((name) => objectsIn(readFileSync(join(deploy, name), 'utf8')));
  // helm makes the namespace of the release.
  const expected = plain.filter((one) => keyOf(one) !== 'Namespace /sluice');
  expect(expected.length).toBeGreaterThan(7);
  // A changed config restarts the pods; the plain manifest has no digest of it.
  const text = rendered(helm, values);
  const digest = / *annotations: \{ checksum\/config: [0-9a-f]{64} \}\n/;
  expect(text).toMatch(digest);
  const objects = objectsIn(text.replace(digest, ''));
  expect(byKey(unlabelled(objects) as readonly Manifest[])).toEqual(byKey(expected));
  for (const { metadata } of objects)
    expect(metadata.labels).toMatchObject({
      'app.kubernetes.io/name': 'sluice',
      'app.kubernetes.io/instance': 'sluice',
      'app.kubernetes.io/managed-by': 'Helm',
      'app.kubernetes.io/version': expect.any(String),
      'helm.sh/chart': expect.stringMatching(/^sluice-/),
    });
});

const monitoring =
  'delivery: git\nmonitoring: { serviceMonitor: true, prometheusRule: true, dashboards: true, runbooks: R }\n';
const integration = (path: string): string => readFileSync(join(deploy, '..', 'integrations', path), 'utf8');

test('with monitoring the chart has the monitors, alerts and dashboards of the integrations', async (context) => {
  const objects = unlabelled(objectsIn(rendered(await need(context, 'helm'), monitoring))) as readonly Manifest[];
  const has = byKey(objects);
  for (const [key, one] of byKey(objectsIn(integration('prometheus/servicemonitor.yaml'))))
    expect(has.get(key)).toEqual(one);
  const rules = integration('prometheus/rules.yaml').replaceAll('file:///usr/share/doc/sluice/alerts.md', 'R');
  expect(has.get('PrometheusRule sluice/sluice')?.spec).toEqual(parse(rules));
  expect(has.get('ConfigMap sluice/sluice-dashboards')).toMatchObject({
    metadata: { labels: { grafana_dashboard: '1' } },
    data: {
      'sluice-fleet.json': integration('grafana/fleet.json'),
      'sluice-node.json': integration('grafana/node.json'),
    },
  });
});

/** Values of a site: the same for both components. */
const site = (delivery: string): string => {
  const pod =
    'priorityClassName: high, tolerations: [{ key: a, operator: Exists }], extraEnv: [{ name: A, value: b }], extraVolumes: [{ name: NAME, emptyDir: {} }], extraVolumeMounts: [{ name: NAME, mountPath: /extra }]';
  const of = (name: string): string =>
    `${name}: { credentials: git-${name}, ${pod.replaceAll('NAME', `${name}-extra`)} }`;
  return `delivery: ${delivery}\nimagePullSecrets: [{ name: registry }]\n${of('watch')}\n${of('sluiced')}\n`;
};

test.for([
  ['git', ['DaemonSet sluice-nodes/sluiced', 'Deployment sluice/sluice-watch']],
  ['node', ['DaemonSet sluice-nodes/sluiced']],
] as const)('delivery %s: pods have what a site sets', async ([delivery, names], context) => {
  const objects = byKey(objectsIn(rendered(await need(context, 'helm'), site(delivery))));
  for (const name of names) {
    const { spec } = objects.get(name) as unknown as { spec: { template: { spec: Record<string, unknown> } } };
    const extra = name.startsWith('DaemonSet') ? 'sluiced-extra' : 'watch-extra';
    expect(spec.template.spec).toMatchObject({
      imagePullSecrets: [{ name: 'registry' }],
      priorityClassName: 'high',
      tolerations: [{ key: 'a', operator: 'Exists' }],
      containers: expect.arrayContaining([
        expect.objectContaining({
          env: expect.arrayContaining([{ name: 'A', value: 'b' }]),
          volumeMounts: expect.arrayContaining([{ name: extra, mountPath: '/extra' }]),
        }),
      ]),
      volumes: expect.arrayContaining([{ name: extra, emptyDir: {} }]),
    });
  }
});

test('git finds the credentials of a Secret, and does not write to its volume', async (context) => {
  const objects = objectsIn(rendered(await need(context, 'helm'), site('git')));
  const pods = JSON.stringify(objects.filter(({ kind }) => kind === 'DaemonSet' || kind === 'Deployment'));
  // Three containers run git: two of the watch, one of the DaemonSet.
  const values = [...pods.matchAll(/"GIT_CONFIG_VALUE_0","value":("(?:[^"\\]|\\.)*")/g)];
  expect(values).toHaveLength(3);
  expect(pods.match(/"mountPath":"\/credentials","readOnly":true/g)).toHaveLength(3);
  const helper = (JSON.parse(values[0]?.[1] ?? '') as string).replace('/credentials', folder);
  writeFileSync(join(folder, '.git-credentials'), 'https://robot:secret@git.example.com\n', { mode: 0o400 });
  const credential = (verb: string, password = '') =>
    execaSync('git', ['-c', `credential.helper=${helper}`, 'credential', verb], {
      input: `protocol=https\nhost=git.example.com\n${password}`,
      env: { HOME: folder, GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_SYSTEM: '/dev/null', GIT_TERMINAL_PROMPT: '0' },
    });
  expect(credential('fill').stdout).toContain('username=robot\npassword=secret');
  expect(credential('reject', 'username=robot\npassword=secret\n')).toMatchObject({ stdout: '', stderr: '' });
  expect(credential('fill').stdout).toContain('password=secret');
});

test.for([
  ['the defaults', ''],
  [
    'an address of the API server',
    'apiServer: { host: "2001:db8::1", port: 443 }\nwatch: { config: { profiles: [{ name: default }] } }\n',
  ],
  ['delivery by Git', 'delivery: git\n'],
  ['values of a site', site('git')],
  ['values of a site and a watch on nodes', site('node')],
  [
    'values of a site that fetches',
    'delivery: fetch\nfetch: { source: { git: { url: "ssh://git@git.example.com/r.git" } }, credentials: a, receipts: { push: { dir: { path: /r } }, credentials: b }, extraEnv: [{ name: A, value: b }], extraVolumes: [{ name: r, emptyDir: {} }], extraVolumeMounts: [{ name: r, mountPath: /r }] }\n',
  ],
  ['live endpoints of releases from Git', live('git')],
  ['live endpoints of fetched releases', live('fetch')],
  ['a watch that serves', `${serve}monitoring: { serviceMonitor: false }\n`],
  ['dashboards', 'monitoring: { dashboards: true }\n'],
  ['no watcher', 'delivery: git\nwatch: { enabled: false }\n'],
  ['no DaemonSet', 'delivery: git\nsluiced: { enabled: false }\n'],
  [
    'other values',
    'delivery: git\nwatch: { replicas: 1 }\nsluiced: { rehearse: false, nodeSelector: { a: b }, tolerations: [], config: { layout: flat }, allowedSigners: "a namespaces=\\"sluice-release\\" ssh-ed25519 AAAA" }\n',
  ],
] as const)('kubeconform accepts the chart with %s', async ([, values], context) => {
  const [helm, kubeconform] = [await need(context, 'helm'), await need(context, 'kubeconform')];
  const { stdout, exitCode } = accepted(kubeconform, needSchemas(context), rendered(helm, values));
  expect({ stdout, exitCode }).toMatchObject({
    exitCode: 0,
    stdout: expect.stringMatching(/Invalid: 0, Errors: 0, Skipped: 0$/),
  });
});

test.for(['node-watch.yaml', 'node-live.yaml', 'watch-serve.yaml'])('kubeconform accepts %s', async (name, context) => {
  const kubeconform = await need(context, 'kubeconform');
  const text = readFileSync(join(deploy, name), 'utf8');
  expect(accepted(kubeconform, needSchemas(context), text)).toMatchObject({ exitCode: 0 });
});

test('kubeconform refuses a field that Kubernetes does not have', async (context) => {
  const kubeconform = await need(context, 'kubeconform');
  const text = readFileSync(join(deploy, 'sluiced.yaml'), 'utf8').replace('hostNetwork: true', 'hostNetworking: true');
  expect(accepted(kubeconform, needSchemas(context), text)).toMatchObject({ exitCode: 1 });
});

test.for([
  ['a repository that a shell would run', 'watch: { repository: "https://x; reboot" }\n'],
  ['an unknown way of delivery', 'delivery: pigeon\n'],
  ['a field that the chart sets itself', 'sluiced: { config: { node: x } }\n'],
  ['an unknown value', 'sluiced: { privileged: true }\n'],
  ['a source among other fields of the config', 'sluiced: { config: { source: { dir: { path: /a } } } }\n'],
  ['a misspelt field of a source', 'fetch: { source: { oic: { reference: "a/b:c" } } }\n'],
  ['a directory of a source, which the chart sets', 'fetch: { source: { directory: /a } }\n'],
  ['a path where certificates belong', 'fetch: { caFile: /etc/ca.pem }\n'],
  ['a switch of monitoring that is a text', 'monitoring: { dashboards: "no" }\n'],
  ['a pull secret without the name of a Secret', 'imagePullSecrets: [registry]\n'],
  ['what else could become of withdrawn endpoints', 'sluiced: { live: { withdrawn: maybe } }\n'],
  ['a type of Services that has no address', 'watch: { serve: { type: ExternalName } }\n'],
  ['credentials in a value', 'watch: { credentials: "https://robot:secret@git.example.com" }\n'],
])('helm refuses %s', async ([, values], context) => {
  const helm = await need(context, 'helm');
  expect(() => rendered(helm, values)).toThrow(/values don't meet the specifications/);
});

test('helm refuses to make nodes take unsigned rules whose signers are given, as after an upgrade', async (context) => {
  const helm = await need(context, 'helm');
  const signers = 'sluiced: { allowedSigners: "a namespaces=\\"sluice-release\\" ssh-ed25519 AAAA" }\n';
  expect(() => rendered(helm, signers)).toThrow(/set delivery to git or fetch to keep signed releases/);
  expect(rendered(helm, `delivery: git\n${signers}`)).toContain('policy: required');
});

test('helm refuses to let nodes fetch from nowhere', async (context) => {
  const helm = await need(context, 'helm');
  expect(() => rendered(helm, 'delivery: fetch\n')).toThrow(/fetch.source is empty/);
});

test.for([
  ['live endpoints without signed releases', 'sluiced: { live: { enabled: true } }\n', /set delivery to git or fetch/],
  ['a watch that serves nodes that do not fetch', 'delivery: git\nwatch: { serve: { secret: a } }\n', /to fetch, with/],
] as const)('helm refuses %s', async ([, values, why], context) => {
  const helm = await need(context, 'helm');
  expect(() => rendered(helm, values)).toThrow(why);
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

test.each([
  ['sluiced.yaml', ['config'], ['releases']],
  ['node-watch.yaml', ['rules', 'config'], ['watch']],
  ['node-fetch.yaml', ['rules', 'config'], ['fetch']],
  ['node-live.yaml', ['rules', 'live', 'config'], ['watch', 'fetch']],
])('only sluiced has capabilities in %s: those of its unit, and SYS_ADMIN for rehearsals', (name, first, beside) => {
  const text = readFileSync(join(deploy, name), 'utf8');
  expect(capabilities(objectsIn(text))).toEqual([
    ...first.map((one) => [one, ['ALL'], [], false, true]),
    ['sluiced', ['ALL'], ['NET_ADMIN', 'NET_RAW', 'SYS_ADMIN'], false, true],
    ...beside.map((one) => [one, ['ALL'], [], false, true]),
  ]);
  const page = readFileSync(join(deploy, '..', 'docs', 'daemonset.md'), 'utf8');
  for (const word of ['NET_ADMIN', 'NET_RAW', 'SYS_ADMIN', 'hostNetwork', 'hostPath', 'runAsUser: 0'])
    expect(page).toContain(`| \`${word}\``);
  expect(text).not.toMatch(/privileged: true|hostPID|hostIPC/);
});

test.each([
  ['sluiced.yaml', { signatures: { policy: 'required' } }],
  ['node-watch.yaml', { signatures: { policy: 'none' }, bundleOwner: 65_532, removals: { holdSeconds: 0 } }],
  ['node-fetch.yaml', { signatures: { policy: 'required' }, bundle: '/var/lib/sluice-fetch/own/release' }],
])('sluiced reads the config that a container of %s writes', (name, fields) => {
  const text = `${daemonSetIn(name).config['sluiced.yaml']}node: "123"\n`;
  expect(readConfig('sluiced.yaml', text)).toMatchObject({ node: '123', rehearse: 'namespace', ...fields });
});

test('on a node with its own watch, sluiced reads what the watch writes, which alone can write it and alone has a token', () => {
  const { config, pod } = daemonSetIn('node-watch.yaml');
  const [sluiced, watch] = pod.containers;
  const { bundle, bundleOwner } = readConfig('x', `${config['sluiced.yaml']}node: "123"\n`) as SluicedConfig;
  expect(watch?.args).toContain(`--output=${bundle}`);
  expect(watch?.args).toContain('--node=$(NODE_NAME)');
  expect(watch?.securityContext.runAsUser).toBe(bundleOwner);
  const rules = (one: NodeContainer | undefined) => one?.volumeMounts.find(({ name }) => name === 'rules');
  expect([rules(sluiced), rules(watch)]).toMatchObject([{ readOnly: true }, { mountPath: '/var/lib/sluice-watch' }]);
  const withToken = [...pod.initContainers, ...pod.containers].filter(({ volumeMounts }) =>
    volumeMounts.some(({ mountPath }) => mountPath.startsWith('/var/run/secrets')),
  );
  expect(withToken).toEqual([watch]);
  // Its rules make the Service of the API server answer.
  expect(watch?.env?.map(({ name }) => name)).toContain('KUBERNETES_SERVICE_HOST');
});

test('all DaemonSets have one container of sluiced, but for the folder of the bundle', () => {
  const without = (name: string) => {
    const sluiced = daemonSetIn(name).pod.containers.find((one) => one.name === 'sluiced');
    const mounts = sluiced?.volumeMounts.filter((mount) => mount.name !== 'rules' && mount.name !== 'releases');
    return { ...sluiced, volumeMounts: mounts };
  };
  for (const name of ['node-watch.yaml', 'node-fetch.yaml', 'node-live.yaml'])
    expect(without(name)).toEqual(without('sluiced.yaml'));
});

test('a node has the rights of kube-proxy', () => {
  const rulesOf = (name: string, kind: string): unknown =>
    (
      objectsIn(readFileSync(join(deploy, name), 'utf8')).find((one) => one.kind === kind) as unknown as {
        rules: unknown;
      }
    ).rules;
  // The rights that a watch of the cluster has, too: kube-proxy may also read single Nodes, and write Events.
  for (const name of ['node-watch.yaml', 'node-live.yaml'])
    for (const kind of ['ClusterRole', 'Role']) expect(rulesOf(name, kind)).toEqual(rulesOf('clusterrole.yaml', kind));
});

/** It is built where that was not done yet. */
async function needApi(context: TestContext): Promise<TestApi> {
  const programs = await apiServerPrograms();
  if ('lack' in programs) context.skip(programs.lack);
  return realApi(programs);
}

test('an upgrade to another version and back keeps the objects on an API server', {
  timeout: 3_600_000,
}, async (context) => {
  const helm = await need(context, 'helm');
  const api = await needApi(context);
  const newer = join(folder, 'newer');
  cpSync(join(deploy, 'chart'), newer, { recursive: true });
  const about = readFileSync(join(newer, 'Chart.yaml'), 'utf8');
  writeFileSync(
    join(newer, 'Chart.yaml'),
    about.replaceAll(/^(version|appVersion): .*$/gm, '$1: 9.9.9-dev.1+g0123456'),
  );
  try {
    const run = (...args: readonly string[]): string =>
      execFileSync(helm, [...args, '--namespace', 'sluice', '--kubeconfig', api.admin], {
        encoding: 'utf8',
        stdio: 'pipe',
        env: { PATH: '/usr/bin', HOME: folder },
      });
    const notes = run('install', 'sluice', join(deploy, 'chart'), '--create-namespace', '--set', 'delivery=git');
    expect(notes).toContain('sluiced.allowedSigners is empty: no release is accepted.');
    const upgraded = run('upgrade', 'sluice', newer, '--set', 'delivery=node,monitoring.dashboards=true');
    expect(upgraded).toContain('apiServer.host is empty');
    const source = 'fetch.source.oci.reference=registry.example.com/sluice/shop:production';
    const receipts = 'fetch.receipts.push.oci.reference=registry.example.com/sluice/shop';
    const fetching = `delivery=fetch,${source},${receipts},fetch.credentials=a,fetch.receipts.credentials=b`;
    expect(run('upgrade', 'sluice', newer, '--set', fetching)).toContain('Each node fetches signed releases from');
    expect(run('get', 'manifest', 'sluice')).toContain('app.kubernetes.io/version: "9.9.9-dev.1_g0123456"');
    expect(run('rollback', 'sluice', '1')).toContain('Rollback was a success');
    expect(run('uninstall', 'sluice')).toContain('uninstalled');
  } finally {
    await api.close();
  }
});
