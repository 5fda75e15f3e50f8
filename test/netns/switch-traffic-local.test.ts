// @module-tag all
// @module-tag alone
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { atTier, programPath } from '@sluice/testing';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { peek } from '../../packages/applier/src/state/peek.ts';
import { writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { assemble } from '../../packages/renderer/src/render/assemble.ts';
import {
  configWith,
  endpoint,
  node,
  portWith,
  profileWith,
  serviceOf,
} from '../../packages/renderer/src/render/compile/sample.fixture.ts';
import type { Service, ServicePort } from '../../packages/renderer/src/render/model/model.ts';
import { type Cluster, openCluster } from './cluster.ts';
import { needBackend, needKernel } from './privileges.ts';
import { type DataPlane, plainPlanes, until } from './sluiced-node.ts';

/**
 * Services with policy Local that lose the last endpoint of their node and get a first one, repeatedly, under new connections
 * all the time, from outside and from a pod. Clients under policy Cluster are served all the time, and no frontend with policy Local
 * ever leads to an endpoint of another node.
 */

const rounds = atTier({ quick: 2, soak: 50 });
const lastAfterSeconds = 3;
const main = programPath('sluiced');

const pods = { here: '10.244.1.5', there: '10.244.2.5', calm: '10.244.1.6' } as const;
const urls = {
  outside: { gate: 'http://203.0.113.50/', calm: 'http://203.0.113.51/' },
  client: { gate: 'http://10.96.0.50/', near: 'http://10.96.0.60/', calm: 'http://10.96.0.51/' },
} as const;

/** What `sluice render` writes. @param isHere whether this node has an endpoint of shop/gate and shop/near */
function bundle(mode: DataPlane['mode'], isHere: boolean): ReadonlyMap<string, string> {
  const at = (pod: keyof typeof pods): ReturnType<typeof endpoint> =>
    endpoint(`${pods[pod]}:8080`, { nodeName: pod === 'there' ? 'node-b' : 'node-a' });
  const service = (name: string, here: Parameters<typeof portWith>[0], rest: Partial<ServicePort>): Service => ({
    ...serviceOf([portWith(here, { ...rest, key: `shop/${name}:http` })]),
    name,
  });
  const endpoints = [...(isHere ? [at('here')] : []), at('there')];
  const services = [
    service('calm', { clusterIP: '10.96.0.51', externalIPs: ['203.0.113.51'], endpoints: [at('calm')] }, {}),
    service(
      'gate',
      { clusterIP: '10.96.0.50', externalIPs: ['203.0.113.50'], endpoints },
      { externalTrafficPolicy: 'Local', nodePort: 30_050 },
    ),
    service('near', { clusterIP: '10.96.0.60', endpoints }, { internalTrafficPolicy: 'Local' }),
  ];
  const profile = profileWith({
    families: ['ipv4'],
    ...(mode === 'nftables' ? { mode, nftables: { masqueradeAll: false } } : {}),
  });
  return assemble({ nodes: [node('node-a'), node('node-b')], services }, configWith({ profiles: [profile] }), true)
    .files;
}

/** `node clients.cjs FILE URL…`: connects to all of them in an endless loop and records the answers. */
const clients = `
  const { get } = require('node:http');
  const { writeFileSync, renameSync } = require('node:fs');
  const [, , file, ...urls] = process.argv;
  const met = {};
  const ask = (url) => {
    let done = false;
    const end = (what) => {
      if (done) return;
      done = true;
      met[url] ??= {};
      met[url][what] = (met[url][what] ?? 0) + 1;
      setTimeout(ask, 5, url);
    };
    const asked = get(url, { agent: false, timeout: 1000 }, (res) => {
      let body = '';
      res.on('data', (text) => (body += text)).on('end', () => end(JSON.parse(body).answer));
    });
    asked.on('timeout', () => { asked.destroy(); end('no answer'); });
    asked.on('error', (error) => end(error.code ?? 'no answer'));
  };
  urls.forEach(ask);
  setInterval(() => { writeFileSync(file + '.tmp', JSON.stringify(met)); renameSync(file + '.tmp', file); }, 50);
`;

type Who = keyof typeof urls;
let cluster: Cluster;
let directory: string;
beforeEach(needKernel);
beforeEach(async () => {
  directory = mkdtempSync(`${tmpdir()}/slt-`);
  const pod = (name: keyof typeof pods) => ({
    name,
    node: name === 'there' ? 'node-b' : 'node-a',
    addresses: [pods[name]],
    ports: ['8080/tcp'],
  });
  cluster = await openCluster({
    nodes: [
      { name: 'node-a', addresses: ['192.0.2.11'], podCIDRs: ['10.244.1.0/24'] },
      { name: 'node-b', addresses: ['192.0.2.12'], podCIDRs: ['10.244.2.0/24'] },
    ],
    pods: [
      pod('here'),
      pod('there'),
      pod('calm'),
      { name: 'client', node: 'node-a', addresses: ['10.244.1.20'], ports: [] },
    ],
    outside: ['198.51.100.7'],
  });
  for (const address of ['203.0.113.50', '203.0.113.51']) await cluster.enterAt(address, 'node-a');
});
afterEach(async () => {
  await cluster[Symbol.asyncDispose]();
  rmSync(directory, { recursive: true, force: true });
});

const file = (who: Who): string => `${directory}/met-${who}`;
type AnswerCountsByUrl = Readonly<Record<string, Readonly<Record<string, number>>>>;
const met = (who: Who): AnswerCountsByUrl => JSON.parse(readFileSync(file(who), 'utf8')) as AnswerCountsByUrl;

/** Waits until clients of shop/gate from outside and of shop/near get this answer. @returns after how long, in milliseconds */
async function answered(what: string): Promise<number> {
  const frontends = [
    ['outside', urls.outside.gate],
    ['client', urls.client.near],
  ] as const;
  const count = (): number => Math.min(...frontends.map(([who, url]) => met(who)[url]?.[what] ?? 0));
  const [before, startMs] = [count(), performance.now()];
  await until(`clients meet ${what}`, async () => count() > before + (what === 'here' ? 20 : 1));
  return performance.now() - startMs;
}

const command = (...args: readonly string[]): readonly string[] => [
  process.execPath,
  main,
  ...args,
  '--config',
  `${directory}/sluiced.yaml`,
];

function configure(backend: string): void {
  const fields = [
    'apiVersion: sluice.dev/v1alpha1\nkind: SluicedConfig\nnode: node-a\nsignatures: {policy: none}',
    `backend: ${backend}\nbundle: ${directory}/rendered\nstate: ${directory}/state`,
    `scanIntervalSeconds: 1\nprobation: {seconds: 0}\nendpoints: {lastAfterSeconds: ${lastAfterSeconds}}\n`,
  ];
  writeFileSync(`${directory}/sluiced.yaml`, fields.join('\n'));
}

describe.each(plainPlanes)('policy Local under $backend, mode $mode', { timeout: 600_000 }, ({ backend, mode }) => {
  beforeEach((context) => needBackend(context, backend));

  test(`${rounds} times: the last endpoint of the node is removed late, the first one added at once, and no connection is lost`, async () => {
    configure(backend);
    const put = (isHere: boolean): void => writeBundle(`${directory}/rendered`, bundle(mode, isHere));
    put(true);
    const host = cluster.host('node-a');
    await host.run(command('apply', `${directory}/rendered`), { timeoutMs: 120_000 });
    writeFileSync(`${directory}/clients.cjs`, clients);
    for (const who of ['outside', 'client'] as const)
      cluster.host(who).start([process.execPath, `${directory}/clients.cjs`, file(who), ...Object.values(urls[who])]);
    await until('the clients run', async () => existsSync(file('outside')) && existsSync(file('client')));
    const daemon = host.start(command('run'));
    await answered('here');
    for (let round = 0; round < rounds; round++) {
      put(false);
      expect(await answered('no answer'), 'the last one is removed late').toBeGreaterThan(lastAfterSeconds * 900);
      put(true);
      expect(await answered('here'), 'the first one is added at once').toBeLessThan(lastAfterSeconds * 1000);
    }
    const kinds = (who: Who, url: string): readonly string[] => Object.keys(met(who)[url] ?? {}).toSorted();
    expect(kinds('outside', urls.outside.gate)).toEqual(['here', 'no answer']);
    expect(kinds('client', urls.client.near)).toEqual(['here', 'no answer']);
    expect(kinds('client', urls.client.gate), 'policy Cluster inside').toEqual(['here', 'there']);
    expect([kinds('outside', urls.outside.calm), kinds('client', urls.client.calm)]).toEqual([['calm'], ['calm']]);
    const record = peek(`${directory}/state`);
    expect(record?.current, 'no release was made').toMatchObject({ number: 1 });
    expect(record?.current?.revision).toBeGreaterThanOrEqual(2 * rounds);
    await daemon.stop();
    const answers = (['outside', 'client'] as const).flatMap((who) =>
      Object.values(met(who)).flatMap((one) => Object.values(one)),
    );
    const total = answers.reduce((sum, one) => sum + one, 0);
    console.log(`${backend}, mode ${mode}: ${total} connections over ${2 * rounds} changes`);
  });
});
