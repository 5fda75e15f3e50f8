// What travels to a node that has the release before, where one Service of 10,000 changed: over OCI and over HTTP, compared with the whole
// layers of the first version of the format. Run it with `node test/bench/fetch.ts [SERVICES]`.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileDigest, makeRelease, printArchive, printRelease, type Release, sumsOf } from '@sluice/bundle';
import { writeLayout } from '../../packages/renderer/src/emit/layout.ts';
import { readConfig } from '../../packages/renderer/src/load/config/config.ts';
import { load } from '../../packages/renderer/src/load/load.ts';
import { render } from '../../packages/renderer/src/render/render.ts';
import { BlobCache } from '../../packages/transport/src/content/cache.ts';
import type { Content } from '../../packages/transport/src/content/content.ts';
import { layoutContent, webReader } from '../../packages/transport/src/content/layout.ts';
import { packRelease } from '../../packages/transport/src/content/pack.ts';
import { pullRelease } from '../../packages/transport/src/content/pull.ts';
import { pushRelease } from '../../packages/transport/src/content/push.ts';
import { registryContent } from '../../packages/transport/src/content/registry.ts';
import { WebClient } from '../../packages/transport/src/http/web.ts';
import { RegistryClient } from '../../packages/transport/src/registry/client.ts';
import { FakeRegistry } from '../registry/fake.fixture.ts';
import { StaticServer } from '../registry/static.fixture.ts';
import { clusterList } from './data.ts';
import { ms, ratio, report } from './measure.ts';

export type Mode = 'iptables' | 'nftables';

export interface Sample {
  readonly release: Release;
  readonly files: ReadonlyMap<string, string>;
}

/** Measures the change of one Service in releases of one node and of a thousand. */
export async function fetchBench(services: number): Promise<void> {
  for (const mode of ['nftables', 'iptables'] as const)
    for (const nodes of [1, 1000]) {
      const [before, after] = releases(mode, services, nodes);
      const name = `one changed Service of ${services}, mode ${mode}, ${nodes} ${nodes === 1 ? 'node' : 'nodes'}`;
      await overRegistry(name, before, after);
      await overHttp(name, before, after);
    }
}

async function overRegistry(name: string, before: Sample, after: Sample): Promise<void> {
  const registry = await FakeRegistry.open({ referrers: true });
  try {
    const client = new RegistryClient({ registry: registry.host, repository: 'shop' }, { env: {} });
    for (const { release, files } of [before, after]) await pushRelease(client, release, files, String(release.serial));
    await measure(`${name}: over OCI`, registryContent(client), () => registry.bytesSent, before, after);
    client.close();
  } finally {
    registry.close();
  }
}

async function overHttp(name: string, before: Sample, after: Sample): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), 'sluice-fetch-bench-'));
  const server = await StaticServer.open(dir);
  try {
    for (const { release, files } of [before, after])
      writeLayout(dir, String(release.serial), packRelease(release, files));
    const client = new WebClient(server.url, {});
    await measure(
      `${name}: over HTTP`,
      layoutContent(server.url, webReader(client)),
      () => server.bytesSent,
      before,
      after,
    );
    client.close();
  } finally {
    server.close();
    rmSync(dir, { recursive: true });
  }
}

/** Pulls both releases for one node, as its cache sees them. @param sent the bytes that the server has sent so far */
async function measure(
  name: string,
  content: Content,
  sent: () => number,
  before: Sample,
  after: Sample,
): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), 'sluice-fetch-bench-'));
  try {
    const cache = new BlobCache(dir);
    const part = { node: 'node-0000', profileOf: () => 'default' };
    const pull = async ({ release }: Sample) => {
      const [bytes, startMs, startCpu] = [sent(), performance.now(), process.cpuUsage()];
      const { digests } = await pullRelease(content, await content.resolve(String(release.serial)), part, cache);
      cache.prune(digests);
      const { user, system } = process.cpuUsage(startCpu);
      return { bytes: sent() - bytes, elapsedMs: performance.now() - startMs, cpuMs: (user + system) / 1000 };
    };
    const [first, delta] = [await pull(before), await pull(after)];
    const whole = wholeLayers(after);
    report(
      name,
      `${kilobytes(delta.bytes)} kB with headers, ${ms(delta.elapsedMs / 1000)}, ${ms(delta.cpuMs / 1000)} of a processor with the server`,
      'at most 100 kB',
      `layers of format v1 ${kilobytes(whole)} kB, ratio ${ratio(delta.bytes, whole)}; the first release ${kilobytes(first.bytes)} kB`,
    );
  } finally {
    rmSync(dir, { recursive: true });
  }
}

const kilobytes = (bytes: number): string => (bytes / 1000).toFixed(1);

/** The bytes of the layers of one profile in the first version: shared files, and the files of the profile. */
function wholeLayers({ files }: Sample): number {
  const groups = Map.groupBy(files, ([path]) => path.startsWith('profiles/'));
  return [...groups.values()].reduce((sum, entries) => sum + printArchive({ files: new Map(entries) }).length, 0);
}

/** A release, and the next one, in which the endpoints of one Service have other addresses. */
function releases(mode: Mode, services: number, nodes: number): readonly [before: Sample, after: Sample] {
  const before = rendered(mode, services, nodes);
  return [released(before, 1, nodes), released(changedService(before, Math.floor(services / 2)), 2, nodes)];
}

/** The endpoints of one Service have other addresses. @param round gives other ones */
export function changedService(before: Sample['files'], service: number, round = 0): Sample['files'] {
  const path = [...before.keys()].find((one) => one.includes(`/svc-${service}.`)) ?? '';
  const text = before.get(path)?.replaceAll(/10\.1(2[89]|3\d)\./g, `10.14${round % 10}.`) ?? '';
  if (text === '' || text === before.get(path)) throw new Error(`${path} does not change`);
  return new Map([...before, [path, text]]);
}

export function rendered(mode: Mode, services: number, nodes: number): ReadonlyMap<string, string> {
  const lines = [`mode: ${mode}`, 'clusterCIDR: 10.128.0.0/9', 'conntrack: { maxPerCore: 0 }'];
  const profile = `name: default\n${lines.map((line) => `  ${line}\n`).join('')}`;
  const sluice = `apiVersion: sluice.dev/v1alpha1\nkind: SluiceConfig\ncomplete: true\nprofiles:\n- ${profile}`;
  const { config } = readConfig({ sluice: { file: 'sluice.yaml', text: sluice }, kubeProxy: [] });
  const text = JSON.stringify(clusterList({ services, endpointsPerService: 5, nodes }));
  const { files, problems } = render({
    base: [],
    change: load([{ file: 'list.json', text }]).objects,
    config,
    allocations: [],
    allocate: false,
    snapshot: true,
    strict: false,
  });
  if (files.size === 0) throw new Error(JSON.stringify(problems.slice(0, 3)));
  return files;
}

/** The versions of all nodes but one are made up, because each takes a tenth of a second: as long, and new in each release. */
export function released(bundle: ReadonlyMap<string, string>, serial: number, nodes: number): Sample {
  const first = new Map([...bundle].filter(([path]) => !path.startsWith('nodes/') || path.includes('node-0000')));
  const made = makeRelease(first, { serial, source: 'c'.repeat(40) });
  if (!('serial' in made)) throw new Error(JSON.stringify(made.slice(0, 3)));
  const all = { ...made.nodes };
  for (let n = 1; n < nodes; n++) {
    const name = `node-${String(n).padStart(4, '0')}`;
    all[name] = { profile: 'default', version: fileDigest(`${serial} ${name}`).slice(0, 16) };
  }
  const release = { ...made, nodes: all };
  const text = printRelease(release);
  const files = new Map([...bundle, ['release.yaml', text], ['SHA256SUMS', sumsOf(bundle, text)]]);
  return { release, files };
}

if (import.meta.main) await fetchBench(Number(process.argv[2] ?? 10_000));
