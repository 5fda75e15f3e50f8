// @module-tag all
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { completeFile } from '@sluice/bundle';
import { execa, execaSync } from 'execa';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { token } from '../cluster/apiserver.fixture.ts';
import { LeaseServer } from '../cluster/lease.fixture.ts';
import { LiveCluster } from '../cluster/live.fixture.ts';
import { node, serviceOf, slice } from '../cluster/objects.fixture.ts';
import { until } from '../cluster/program.fixture.ts';
import { type UnpackedImage, inImage, noImageBecause, unpackImage } from './image.fixture.ts';

/** The pod of deploy/watch.yaml, container by container, in the shipped image. */

interface ContainerManifest {
  readonly command?: readonly string[];
  readonly args?: readonly string[];
  readonly env: readonly { readonly name: string; readonly value: string }[];
}
interface Deployment {
  readonly kind: string;
  readonly spec: {
    readonly template: {
      readonly spec: {
        readonly initContainers: readonly [ContainerManifest];
        readonly containers: readonly [ContainerManifest];
      };
    };
  };
}
const text = readFileSync(join(import.meta.dirname, '../../deploy/watch.yaml'), 'utf8');
const objects = parseAllDocuments(text).map((document) => document.toJS() as Deployment);
const { initContainers, containers } = (objects.find(({ kind }) => kind === 'Deployment') as Deployment).spec.template
  .spec;
const environment = Object.fromEntries(containers[0].env.map(({ name, value }) => [name, value]));

let image: UnpackedImage;
beforeEach((context) => {
  if (noImageBecause) context.skip(noImageBecause);
  image = unpackImage();
});
const run = (...argv: readonly string[]): string => execaSync(...inImage(image, argv, environment)).stdout;
const git = (...argv: readonly string[]): string => run('/usr/bin/git', '-C', '/work/rules', ...argv);

test('its init container clones the repository, updates an existing clone, and replaces a broken one', () => {
  const [shell, options, script] = initContainers[0].command as readonly [string, string, string];
  const clone = [`/usr/bin/${shell}`, options, script.replace(/https:\S+/, '/work/origin.bundle')];
  run('/bin/sh', '-ec', 'git init -q /work/origin && cd /work/origin && git commit -q --allow-empty -m one');
  run('/usr/bin/git', '-C', '/work/origin', 'bundle', 'create', '--quiet', '/work/origin.bundle', 'HEAD');
  run(...clone);
  git('commit', '-q', '--allow-empty', '-m', 'ours');
  run(...clone);
  expect(git('log', '--format=%s')).toBe('ours\none');
  run('/bin/sh', '-c', ': > /work/rules/.git/HEAD');
  run(...clone);
  expect(git('log', '--format=%s')).toBe('one');
});

test('its Git reads passwords from the mounted file', () => {
  writeFileSync(join(image.root, 'work/.git-credentials'), 'https://sluice:secret@git.example.com\n');
  const asked = 'protocol=https\\nhost=git.example.com\\n\\n';
  expect(run('/bin/sh', '-ec', `printf '${asked}' | git credential fill`)).toContain('password=secret');
});

let cluster: LiveCluster | undefined;
afterEach(async () => {
  await cluster?.server.close();
  cluster = undefined;
});

/** Writes the files of a service account, as the kubelet does. @returns the address of the API server */
function account(kubeconfig: string): Readonly<Record<string, string>> {
  const place = join(image.root, 'var/run/secrets/kubernetes.io/serviceaccount');
  mkdirSync(place, { recursive: true });
  writeFileSync(join(place, 'token'), token);
  writeFileSync(join(place, 'namespace'), 'sluice');
  writeFileSync(join(place, 'ca.crt'), readFileSync(join(dirname(kubeconfig), 'ca.crt')));
  const [, host = '', port = ''] = /https:\/\/([0-9.]+):(\d+)/.exec(readFileSync(kubeconfig, 'utf8')) ?? [];
  return { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port };
}

test('its main container takes the Lease, follows the cluster, commits changes and ends cleanly', async () => {
  cluster = await LiveCluster.start();
  const api = cluster;
  const leases = new LeaseServer();
  api.server.intercept = (path, request, response) =>
    leases.answer(path, request, response) || api.answer(path, request, response);
  api.put('services', serviceOf('a', 1));
  api.put('endpointslices', slice);
  api.put('nodes', node);
  run('/bin/sh', '-ec', 'git init -q /work/rules && cd /work/rules && git commit -q --allow-empty -m one');
  // There is no remote repository here, and another program may use the default port.
  const args = (containers[0].args ?? []).filter((word) => word !== '--push' && !word.startsWith('--listen'));
  const more = { ...environment, ...account(api.server.kubeconfig({ token })) };
  const [file, argv, options] = inImage(image, [...image.config.Entrypoint, ...args], more);
  const watching = execa(file, argv, { ...options, reject: false });
  try {
    await until(() => git('log', '--format=%s').startsWith('sluice: initial render of 1 Service for 1 node\n'));
    api.put('services', serviceOf('b', 2));
    await until(() => git('log', '--format=%s').startsWith('watch: Service shop/b\n'));
  } finally {
    watching.kill('SIGTERM');
  }
  expect(await watching).toMatchObject({ exitCode: 0 });
  expect(leases.spec('sluice-watch')).toMatchObject({ holderIdentity: '' });
  expect(readFileSync(join(image.root, 'work/rules/rendered', completeFile), 'utf8')).toMatch(/^sha256:/);
});
