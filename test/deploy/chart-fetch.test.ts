// @module-tag all
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { receiptFile } from '@sluice/bundle';
import { afterAll, beforeEach, expect, test, type TestContext } from 'vitest';
import { readConfig, type SluicedConfig } from '../../packages/applier/src/config.ts';
import { pushSchema, sourceSchema } from '../../packages/applier/src/config-source.ts';
import { sampleNode } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { GateScene } from '../../packages/applier/src/testing/gate.fixture.ts';
import { archivePath, unpackReceipts } from '../../packages/transport/src/receipts/archive.ts';
import { daemonSetOf, deploy, type NodeContainer, rendered } from './chart.fixture.ts';
import { PodFolder } from './pod.fixture.ts';
import { need } from './programs.ts';

/** Delivery fetch of the chart: what it writes into the config, and what its containers can do with that. */

const scene = new GateScene();
afterAll(scene.end);
beforeEach(scene.reset);
const whyNot = process.getuid?.() === 0 ? '' : 'mounts of its own need root';

const withFetch = (fields: object, more: object = {}): string =>
  JSON.stringify({ delivery: 'fetch', fetch: fields, ...more });
const registry = { oci: { reference: 'registry.example.com/sluice/shop:production' } };

async function configOf(context: TestContext, values: string): Promise<SluicedConfig> {
  const { config } = daemonSetOf(rendered(await need(context, 'helm'), values));
  return readConfig('sluiced.yaml', `${config['sluiced.yaml']}node: "node-a"\n`) as SluicedConfig;
}

test('values for a source and for receipts are the fields of the config, but for those that the chart sets', () => {
  interface Names {
    readonly properties: Readonly<Record<string, Names>>;
    readonly propertyNames: { readonly enum: readonly string[] };
  }
  const schema = JSON.parse(readFileSync(join(deploy, 'chart/values.schema.json'), 'utf8')) as Names;
  const fetch = schema.properties['fetch']?.properties;
  const [{ entries: source }, { entries: push }] = [sourceSchema.pipe[0], pushSchema.pipe[0]];
  const isOfUser = (name: string): boolean => !['directory', 'credentials', 'caFile'].includes(name);
  const names = (entries: object): readonly string[] => Object.keys(entries).filter(isOfUser).toSorted();
  expect(fetch?.['source']?.propertyNames.enum.toSorted()).toEqual(names(source));
  expect(fetch?.['receipts']?.properties['push']?.propertyNames.enum.toSorted()).toEqual(names(push));
});

test('nodes that follow a watch of the chart leave removals to it, unless values say how long', async (context) => {
  const holdSeconds = async (more: object): Promise<unknown> =>
    (await configOf(context, withFetch({ source: registry }, more))).removals.holdSeconds;
  const watch = { serve: { secret: 'watch' } };
  const sluiced = { config: { removals: { holdSeconds: 60 } } };
  expect(await holdSeconds({})).toBeGreaterThan(0);
  expect([await holdSeconds({ watch }), await holdSeconds({ watch, sluiced })]).toEqual([0, 60]);
});

const certificate = '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n';

test.for([
  [
    'a registry',
    { source: { ...registry, bytesMax: 268_435_456 }, credentials: 'a' },
    { oci: registry.oci, bytesMax: 268_435_456, credentials: { file: '/credentials/source/credentials' } },
  ],
  [
    'Git over ssh',
    { source: { git: { url: 'ssh://git@git.example.com/r.git' } }, credentials: 'a' },
    {
      git: { url: 'ssh://git@git.example.com/r.git', knownHosts: '/credentials/source/known_hosts' },
      credentials: { file: '/credentials/source/ssh-privatekey' },
    },
  ],
  [
    'Git over https, with an authority of the site',
    {
      source: { git: { url: 'https://git.example.com/r.git' }, proxy: 'https://proxy.example.com' },
      caFile: certificate,
    },
    { git: { url: 'https://git.example.com/r.git' }, proxy: 'https://proxy.example.com', caFile: '/etc/sluice/ca.crt' },
  ],
  ['a web server', { source: { https: { url: 'https://www.example.com/shop' } } }, { https: { tag: 'latest' } }],
] as const)('the config of %s is read by sluiced', async ([, fetch, source], context) => {
  const config = await configOf(context, withFetch(fetch));
  expect(config).toMatchObject({
    source,
    signatures: { policy: 'required' },
    bundle: '/var/lib/sluice-fetch/own/release',
  });
  expect(config.receipts.push).toBeUndefined();
});

test('receipts are sent with a Secret of their own, beside what else the config says of them', async (context) => {
  const receipts = { push: { oci: { reference: 'registry.example.com/sluice/shop' } }, credentials: 'b' };
  const more = { sluiced: { config: { receipts: { keep: 5 } } } };
  const values = withFetch({ source: registry, credentials: 'a', receipts }, more);
  const { receipts: read } = await configOf(context, values);
  expect(read).toMatchObject({
    keep: 5,
    push: { ...receipts.push, credentials: { file: '/credentials/receipts/credentials' } },
  });
  const { pod } = daemonSetOf(rendered(await need(context, 'helm'), values));
  const secrets = pod.volumes.flatMap(({ name, secret }) =>
    secret ? [[name, secret.secretName, secret.optional]] : [],
  );
  expect(secrets).toEqual([
    ['receipts-credentials', 'b', true],
    ['source-credentials', 'a', true],
  ]);
  const seesSecrets = ({ volumeMounts }: NodeContainer): boolean =>
    volumeMounts.some(({ mountPath }) => mountPath.startsWith('/credentials/'));
  expect([...pod.initContainers, ...pod.containers].filter(seesSecrets).map(({ name }) => name)).toEqual(['fetch']);
});

test('without delivery fetch nothing of it is in the pod', async (context) => {
  const text = rendered(await need(context, 'helm'), 'delivery: git\nfetch: { credentials: a }\n');
  expect(JSON.stringify(daemonSetOf(text).pod)).not.toMatch(/sluice-fetch|65531|credentials/);
});

/** Prints what the daemon makes of the placed release, and of what the fetch process says. */
const look = `
import { readFileSync } from 'node:fs';
import { lookAt } from '/checkout/packages/applier/src/commands/session/gate.ts';
import { readConfig } from '/checkout/packages/applier/src/config.ts';
import { readSourceStatus } from '/checkout/packages/applier/src/fetch/status-file.ts';
import { trustOf } from '/checkout/packages/applier/src/inbox/trust.ts';
const config = readConfig('c', readFileSync('/etc/sluice/sluiced.yaml', 'utf8'));
const { kind, release, problems = [] } = await lookAt(config, false);
const { outcome, receipts } = readSourceStatus(config.source.directory, trustOf(undefined, config.source.directory)) ?? {};
console.log(JSON.stringify({ kind, serial: release?.serial, problems: problems.map(({ code }) => code), outcome, receipts }));`;

test('the containers of the chart carry a release to sluiced, and receipts back', {
  timeout: 300_000,
}, async (context) => {
  if (whyNot !== '') return context.skip(whyNot);
  scene.publish({ serial: 5 });
  const store = join(scene.scratch, 'store');
  mkdirSync(store);
  execFileSync('/bin/chmod', ['0777', store]);
  const fetch = {
    source: { dir: { path: '/origin' } },
    receipts: { push: { dir: { path: '/store' } }, credentials: 'b' },
    credentials: 'a',
    caFile: certificate,
    extraVolumes: ['origin', 'store'].map((name) => ({ name, emptyDir: {} })),
    extraVolumeMounts: ['origin', 'store'].map((name) => ({ name, mountPath: `/${name}` })),
  };
  const allowedSigners = readFileSync(scene.signersFile, 'utf8');
  const { config, pod } = daemonSetOf(
    rendered(await need(context, 'helm'), withFetch(fetch, { sluiced: { allowedSigners } })),
  );
  const secret = { files: { credentials: 'robot:secret\n' } };
  const folder = join(scene.scratch, 'pod');
  const onNode = new PodFolder(folder, pod, {
    config: { files: config },
    'source-credentials': secret,
    'receipts-credentials': secret,
    origin: { folder: scene.directory },
    store: { folder: store },
  });
  for (const one of pod.initContainers) onNode.run(one);
  // sluiced writes receipts as root.
  const receipt = join(folder, 'state/receipts', receiptFile({ node: sampleNode, number: 7 }));
  writeFileSync(`${receipt}.sig`, 'signature');
  writeFileSync(receipt, 'receipt');
  const [sluiced, fetcher] = pod.containers as readonly [NodeContainer, NodeContainer];
  const fetched = (): string => onNode.run(fetcher, [...fetcher.command, '--once']);
  // A container of the image, and not of sluiced's: it alone needs capabilities.
  const seen = (): unknown =>
    JSON.parse(
      onNode.run({ ...sluiced, securityContext: { runAsUser: 0 } }, ['node', '--input-type=module', '-e', look]),
    );
  expect(fetched()).toContain('placed; release 5 is in place');
  expect(seen()).toEqual({ kind: 'bundle', serial: 5, problems: [], outcome: 'placed', receipts: null });
  const archive = readFileSync(join(store, archivePath(sampleNode)));
  expect(unpackReceipts('sent', sampleNode, archive)).toMatchObject([{ number: 7, text: 'receipt' }]);
  // Neither the state but receipts, nor root's files: what it may write is its own folder.
  const own = (script: string): string => onNode.run(fetcher, ['sh', '-c', `${script}; echo "exit $?"`]);
  expect(own('ls /var/lib/sluice')).toBe('receipts\nexit 0\n');
  for (const path of ['/var/lib/sluice/receipts/x', '/var/lib/sluice-fetch/x', '/etc/sluice/x', '/run/sluice/x', '/x'])
    expect(own(`echo x 2>&1 >${path}`)).toMatch(/exit [12]\n$/);
  expect(own('grep -c "^Cap[EPB].*0000000000000000$" /proc/self/status')).toBe('3\nexit 0\n');
  expect(readIn(fetcher, onNode)).toBe('{"kind":"password","user":"robot","password":"secret"}\n');
  // Where others than its user can write the folder, sluiced takes nothing more from it.
  execFileSync('/bin/chmod', ['0777', join(folder, 'rules/sluice-fetch')]);
  expect(seen()).toMatchObject({ kind: 'refused', problems: ['BUNDLE_UNTRUSTED'] });
});

/** Reads the password of the source in the container as the fetch process does. */
const readIn = (fetcher: NodeContainer, pod: PodFolder): string =>
  pod.run(fetcher, [
    'node',
    '--input-type=module',
    '-e',
    `import { readCredentials } from '/checkout/packages/applier/src/fetch/credentials.ts';
console.log(JSON.stringify(await readCredentials({ file: '/credentials/source/credentials' }, { environment: {} })));`,
  ]);
