// @module-tag test
import { mkdirSync, writeFileSync } from 'node:fs';
import { beforeEach, describe, expect, test } from 'vitest';
import { sampleBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { Fetcher } from '../../packages/applier/src/testing/fetch.fixture.ts';
import { makeAuthority } from '../cluster/certificates.fixture.ts';
import { FakeRegistry } from '../registry/fake.fixture.ts';
import { StaticServer } from '../registry/static.fixture.ts';
import { GitHttpServer } from '../servers/git-http.ts';
import { commitTo, pushTo, writeLayout } from './publish.fixture.ts';
import { sourceScene } from './scene.fixture.ts';

/** Each kind of source, from a real server: releases are placed, the daemon takes them, and the next ones follow. */

const { scene, at, closed } = sourceScene();
const { publish, directory: release } = scene;

const day = 86_400_000;
const authority = makeAuthority('test', new Date(Date.now() + day));
const identity = authority.issue('server', new Date(Date.now() + day));
const changed = sampleBundle({ services: { 'shop/web': [7] } });

/** A server of a kind, with what puts the release of the scene there. */
interface Kind {
  readonly source: object;
  readonly put: () => Promise<void> | void;
  /** What was requested. */
  readonly seen: readonly string[];
}

const kinds: readonly (readonly [string, () => Promise<Kind>])[] = [
  [
    'oci: a registry that lists referrers',
    async () => {
      const registry = closed(await FakeRegistry.open({ referrers: true }));
      const reference = `${registry.host}/shop:production`;
      const put = async (): Promise<void> => void (await pushTo(reference, release, 'production'));
      return { source: { oci: { reference } }, put, seen: registry.seen };
    },
  ],
  [
    'oci: a registry without referrers',
    async () => {
      const registry = closed(await FakeRegistry.open());
      const reference = `${registry.host}/shop:production`;
      const put = async (): Promise<void> => void (await pushTo(reference, release, 'production'));
      return { source: { oci: { reference } }, put, seen: registry.seen };
    },
  ],
  [
    'https: an image layout behind a web server with a private authority',
    async () => {
      writeFileSync(at('ca.pem'), authority.certificate);
      const server = closed(await StaticServer.open(at('www'), { identity }));
      const source = { https: { url: `${server.url}/shop`, tag: 'production' }, caFile: at('ca.pem') };
      return { source, put: () => writeLayout(at('www/shop'), release, 'production'), seen: server.answered };
    },
  ],
  [
    'git: over https with a private authority and a password',
    async () => {
      writeFileSync(at('ca.pem'), authority.certificate);
      writeFileSync(at('password'), 'alice:s3cret\n', { mode: 0o600 });
      const server = closed(await GitHttpServer.open(at('git'), { identity, password: 'alice:s3cret' }));
      const git = { url: `${server.url}/shop/.git`, path: 'out/rendered' };
      const source = { git, caFile: at('ca.pem'), credentials: { file: at('password') } };
      return { source, put: () => commitTo(at('git/shop'), release, 'out/rendered'), seen: server.answered };
    },
  ],
  ['dir: a stick', async () => ({ source: { dir: { path: release } }, put: () => undefined, seen: [] })],
];

describe.each(kinds)('%s', (_title, open) => {
  let kind: Kind;
  let fetcher: Fetcher;
  beforeEach(async () => {
    kind = await open();
    fetcher = new Fetcher(scene, kind.source);
  });

  test('a release, the next one, an older one that is replayed, a fork', async () => {
    publish({ serial: 5 });
    await kind.put();
    expect(await fetcher.said()).toMatch(/^placed 5: /);
    expect(await fetcher.taken()).toBe('serial 5');
    expect(await fetcher.said()).toBe('same');
    publish({ serial: 6, files: changed });
    await kind.put();
    expect(await fetcher.said()).toMatch(/^placed 6: \d files$/);
    expect(await fetcher.taken()).toBe('serial 6');
    const before = fetcher.inodes();
    publish({ serial: 5 });
    await kind.put();
    expect(await fetcher.said()).toMatch(/^refused RELEASE_SERIAL/);
    publish({ serial: 6 });
    await kind.put();
    expect(await fetcher.said()).toMatch(/^refused RELEASE_EQUIVOCATION/);
    expect(fetcher.inodes()).toEqual(before);
    expect(await fetcher.taken()).toBe('serial 6');
  });

  test('a restarted process asks, and fetches nothing that it has', async () => {
    publish({ serial: 5 });
    await kind.put();
    /** Requests for content. git's question for the branch is one request of this kind, too. */
    const requests = (since: number): number =>
      kind.seen.slice(since).filter((one) => /blobs|POST .*upload-pack/.test(one)).length;
    await fetcher.said();
    const before = kind.seen.length;
    fetcher.restart();
    expect(await fetcher.said()).toBe('same');
    const ofQuestion = kind.seen.some((one) => one.includes('upload-pack')) ? 1 : 0;
    expect(requests(before)).toBe(ofQuestion);
    expect(requests(0)).toBeGreaterThanOrEqual(3 * ofQuestion);
  });
});

describe('https', () => {
  test('asks only whether index.json changed', async () => {
    const server = closed(await StaticServer.open(at('www')));
    publish({ serial: 5 });
    writeLayout(at('www'), release, 'latest');
    const fetcher = new Fetcher(scene, { https: { url: server.url } });
    await fetcher.said();
    const before = server.answered.length;
    expect(await fetcher.said()).toBe('same');
    expect(server.answered.slice(before)).toEqual(['GET /index.json 304']);
  });

  test('a password goes to the server of the config alone', async () => {
    writeFileSync(at('password'), 'alice:s3cret\n', { mode: 0o600 });
    const [server, other] = [closed(await StaticServer.open(at('www'))), closed(await StaticServer.open(at('www')))];
    publish({ serial: 5 });
    writeLayout(at('www'), release, 'latest');
    server.instead = (request, response) => {
      if (!request.url?.includes('blobs')) return false;
      response.writeHead(307, { location: `${other.url}${request.url}` }).end();
      return true;
    };
    const fetcher = new Fetcher(scene, { https: { url: server.url }, credentials: { file: at('password') } });
    expect(await fetcher.said()).toMatch(/^placed 5/);
    expect(server.seen.every((one) => one.includes('+auth'))).toBe(true);
    expect(other.seen.length).toBeGreaterThan(0);
    expect(other.seen.filter((one) => one.includes('+auth'))).toEqual([]);
  });
});

describe('oci', () => {
  test('a digest names one release for ever, and gets signatures that come later', async () => {
    const registry = closed(await FakeRegistry.open({ referrers: true }));
    publish({ serial: 5, by: [] });
    const digest = await pushTo(`${registry.host}/shop:1`, release, '1');
    const fetcher = new Fetcher(scene, { oci: { reference: `${registry.host}/shop@${digest}` } });
    expect(await fetcher.said()).toMatch(/^refused RELEASE_UNSIGNED/);
    publish({ serial: 5 });
    await pushTo(`${registry.host}/shop:1`, release, '1');
    expect(await fetcher.said()).toMatch(/^placed 5/);
  });

  test('of the next release only what differs travels', async () => {
    const registry = closed(await FakeRegistry.open({ referrers: true }));
    const reference = `${registry.host}/shop:1`;
    const services = (port: number): Parameters<typeof sampleBundle>[0] => ({
      services: Object.fromEntries(Array.from({ length: 300 }, (_, n) => [`shop/s${n}`, [n === 7 ? port : 1]])),
    });
    const fetcher = new Fetcher(scene, { oci: { reference } });
    publish({ serial: 5, files: sampleBundle(services(1)) });
    await pushTo(reference, release, '1');
    await fetcher.said();
    const before = registry.seen.length;
    publish({ serial: 6, files: sampleBundle(services(2)) });
    await pushTo(reference, release, '1');
    const pushed = registry.seen.length;
    expect(await fetcher.said()).toMatch(/^placed 6: \d files$/);
    expect(before).toBeGreaterThan(0);
    const blobs = registry.seen.slice(pushed).filter((one) => one.includes('/blobs/'));
    expect(blobs.length).toBeLessThanOrEqual(4);
  });
});

test.each([
  ['expired', () => authority.issue('server', new Date(Date.now() - day)), 'has expired'],
  [
    'not yet valid',
    () => authority.issueFrom(new Date(Date.now() + day / 2), 'server', new Date(Date.now() + day)),
    'not yet valid',
  ],
])('a certificate that is %s is told with the clock of the node', async (_title, issue, says) => {
  writeFileSync(at('ca.pem'), authority.certificate);
  mkdirSync(at('git'));
  const key = issue();
  const [web, git] = [
    closed(await StaticServer.open(at('www'), { identity: key })),
    closed(await GitHttpServer.open(at('git'), { identity: key })),
  ];
  for (const [source, words] of [
    [{ https: { url: web.url } }, [says]],
    [{ git: { url: `${git.url}/shop/.git` } }, [says, 'certificate verification failed']],
  ] as const) {
    const said = await new Fetcher(scene, { ...source, caFile: at('ca.pem') }).said();
    expect(said).toMatch(/^failed (REGISTRY|SOURCE)_UNREACHABLE/);
    expect(words.some((one) => said.includes(one))).toBe(true);
    expect(said).toContain('Check the clock first: the clock of this node says 2026-12-01T12:00:00Z');
  }
});

test.each([['an unknown authority', 'self-signed|unable to (?:get|verify)']])('%s is refused', async (_title, says) => {
  const web = closed(await StaticServer.open(at('www'), { identity }));
  expect(await new Fetcher(scene, { https: { url: web.url } }).said()).toMatch(new RegExp(says));
});
