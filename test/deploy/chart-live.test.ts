// @module-tag all
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeEach, expect, test } from 'vitest';
import { readConfig, type SluicedConfig } from '../../packages/applier/src/config.ts';
import { GateScene } from '../../packages/applier/src/testing/gate.fixture.ts';
import { daemonSetOf, type NodeContainer, rendered } from './chart.fixture.ts';
import { PodFolder } from './pod.fixture.ts';
import { need } from './programs.ts';

/** Live endpoints of signed releases in a DaemonSet: who writes, reads and may read what. */

const scene = new GateScene();
afterAll(scene.end);
beforeEach(scene.reset);
const whyNot = process.getuid?.() === 0 ? '' : 'mounts of its own need root';

const read = (config: Readonly<Record<string, string>>): SluicedConfig =>
  readConfig('sluiced.yaml', `${config['sluiced.yaml']}node: "node-a"\n`) as SluicedConfig;
const values = (fields: object): string => JSON.stringify({ sluiced: { live: { enabled: true } }, ...fields });
const source = { oci: { reference: 'registry.example.com/sluice/shop:production' } };

test.for([
  ['git', values({ delivery: 'git' })],
  ['fetch', values({ delivery: 'fetch', fetch: { source } })],
] as const)(
  'delivery %s: the watch renders the release that sluiced reads, into the directory that it takes endpoints from',
  async ([, text], context) => {
    const { config, named } = daemonSetOf(rendered(await need(context, 'helm'), text));
    const { bundle, endpoints, signatures } = read(config);
    expect(signatures.policy).toBe('required');
    expect(named('watch').args).toEqual([
      'watch',
      '--node=$(NODE_NAME)',
      `--release=${bundle}`,
      '--withdrawn=keep',
      '--config=/config/sluice.yaml',
      `--output=${endpoints.live?.directory}`,
      '--listen=127.0.0.1:9780',
    ]);
    expect(named('watch').securityContext.runAsUser).toBe(endpoints.live?.owner);
  },
);

test('the chart passes on what becomes of withdrawn Services, and the other fields of endpoints', async (context) => {
  const sluiced = { live: { enabled: true, withdrawn: 'drop' }, config: { endpoints: { lastAfterSeconds: 3 } } };
  const text = rendered(await need(context, 'helm'), JSON.stringify({ delivery: 'git', sluiced }));
  const { config, named } = daemonSetOf(text);
  expect(named('watch').args).toContain('--withdrawn=drop');
  expect(read(config).endpoints).toMatchObject({ lastAfterSeconds: 3, live: { owner: 65_532 } });
});

test('the watch alone has a token, an address of the API server that needs no Service, and no extras of the pods that commit', async (context) => {
  const watch = {
    extraEnv: [{ name: 'A', value: 'b' }],
    extraVolumes: [{ name: 'git', secret: { secretName: 'git' } }],
  };
  const text = values({ delivery: 'git', watch, apiServer: { host: 'api.example.com' } });
  const { pod, named } = daemonSetOf(rendered(await need(context, 'helm'), text));
  const hasToken = ({ volumeMounts }: NodeContainer): boolean =>
    volumeMounts.some(({ mountPath }) => mountPath.startsWith('/var/run/secrets'));
  expect([...pod.initContainers, ...pod.containers].filter(hasToken)).toEqual([named('watch')]);
  expect(named('watch').env).toContainEqual({ name: 'KUBERNETES_SERVICE_HOST', value: 'api.example.com' });
  expect(JSON.stringify(pod)).not.toMatch(/"A"|"git"/);
});

/** Prints what the daemon makes of the directory of live endpoints. */
const look = `
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { readConfig } from '/checkout/packages/applier/src/config.ts';
import { Inbox } from '/checkout/packages/applier/src/inbox/inbox.ts';
import { trustOf } from '/checkout/packages/applier/src/inbox/trust.ts';
const { live } = readConfig('c', readFileSync('/etc/sluice/sluiced.yaml', 'utf8')).endpoints;
const { kind, problems = [] } = await new Inbox(live.directory, Date.now, trustOf(live.owner)).look();
console.log(JSON.stringify({ kind, problems: problems.map(({ code }) => code) }));`;

test('the watch reads what the fetch process placed, sluiced what the watch wrote, and none writes elsewhere', {
  timeout: 300_000,
}, async (context) => {
  if (whyNot !== '') return context.skip(whyNot);
  scene.publish({ serial: 5 });
  const allowedSigners = readFileSync(scene.signersFile, 'utf8');
  const origin = {
    source: { dir: { path: '/origin' } },
    extraVolumes: [{ name: 'origin', emptyDir: {} }],
    extraVolumeMounts: [{ name: 'origin', mountPath: '/origin' }],
  };
  const sluicedValues = { live: { enabled: true }, allowedSigners };
  const text = values({ delivery: 'fetch', fetch: origin, sluiced: sluicedValues });
  const { config, pod, named } = daemonSetOf(rendered(await need(context, 'helm'), text));
  const folder = join(scene.scratch, 'pod');
  const onNode = new PodFolder(folder, pod, {
    config: { files: config },
    origin: { folder: scene.directory },
    account: { files: { token: 'a token' } },
  });
  for (const one of pod.initContainers) onNode.run(one);
  const run = (name: string, script: string): string =>
    onNode.run(named(name), ['sh', '-c', `umask 022; ${script}; echo "exit $?"`]);
  expect(onNode.run(named('fetch'), [...named('fetch').command, '--once'])).toContain('release 5 is in place');
  // As root without the capability to read everything.
  const seen = (): unknown =>
    JSON.parse(
      onNode.run({ ...named('sluiced'), securityContext: { runAsUser: 0 } }, [
        'node',
        '--input-type=module',
        '-e',
        look,
      ]),
    );
  expect(run('watch', 'cp -r /var/lib/sluice-fetch/own/release/. /var/lib/sluice-watch/live')).toBe('exit 0\n');
  expect(seen()).toEqual({ kind: 'bundle', problems: [] });
  for (const path of ['/var/lib/sluice-fetch/own/x', '/var/lib/sluice-watch/x', '/config/x', '/x'])
    expect(run('watch', `echo x 2>&1 >${path}`)).toMatch(/exit [12]\n$/);
  expect(run('watch', 'cat /var/run/secrets/kubernetes.io/serviceaccount/token')).toBe('a tokenexit 0\n');
  for (const path of ['/var/lib/sluice-watch', '/var/run/secrets'])
    expect(run('fetch', `ls ${path} 2>/dev/null`)).toMatch(/^exit [12]\n$/);
  execFileSync('/bin/chmod', ['0777', join(folder, 'rules/sluice-watch')]);
  expect(seen()).toEqual({ kind: 'refused', problems: ['BUNDLE_UNTRUSTED'] });
});
