import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { LiveTree } from '../../emit/live-tree.ts';
import { listTree, openTree } from '../../load/tree.ts';
import { config, endpoint, service, slice } from '../../render/builders.fixture.ts';
import { LiveRender } from '../../render/incremental/live-render.ts';
import type { Problem } from '@sluice/netfilter';
import type { KubeObject } from '../../render/model/kube.ts';
import { Metrics } from './metrics.ts';
import { type Publication, Publisher, type RemovalRules } from './publisher.ts';

let dir: string;
let metrics: Metrics;
let objects: readonly KubeObject[];
let published: Publication[];
let publisher: Publisher;
let nowMs: number;
let failures: (readonly Problem[])[];
let textOnDisk: (path: string) => string | undefined;

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'sluice-publisher-'));
  metrics = new Metrics();
  objects = [service('web'), slice('web')];
  [published, failures, textOnDisk] = [[], [], () => undefined];
  nowMs = 1_000_000;
  publisher = new Publisher({
    live: new LiveRender(config()),
    tree: new LiveTree(dir),
    textOnDisk: (path) => textOnDisk(path),
    metrics,
    clock: { now: () => nowMs, monotonic: () => nowMs },
  });
});
afterEach(() => {
  publisher.stop();
  rmSync(dir, { recursive: true });
});

const nameOf = ({ value }: KubeObject): string => (value['metadata'] as { name: string }).name;

/** Publishes the objects, and records the result. */
function publish(): void {
  const result = publisher.publish(new Map(objects.map((one) => [`${one.kind} ${nameOf(one)}`, one])));
  if ('problems' in result) failures.push(result.problems);
  else published.push(result);
}
const about = (): readonly (readonly string[])[] => published.map((publication) => publication.about);
const pending = async (): Promise<number | undefined> => (await metrics.pending.get()).values[0]?.value;
const latencies = async (): Promise<number> =>
  (await metrics.programming.get()).values.find(({ metricName }) => metricName?.endsWith('_count'))?.value ?? 0;
const change = (name: string): boolean =>
  publisher.changed({ about: `Service shop/${name}`, isEndpoints: true, triggeredMs: nowMs - 50 });

test('ignores changes while another process writes', async () => {
  for (let index = 0; index < 10; index++) change(`s${index}`);
  expect(await pending()).toBe(0);
  publisher.start();
  publish();
  expect(published[0]?.about).not.toContain('Service shop/s0');
});

test('names the objects of the first publication from its files, of later ones from changes', () => {
  publisher.start();
  for (const name of ['web', 'api', 'gone']) change(name);
  publish();
  expect(about()).toEqual([['Profile default', 'Service shop/web']]);
  publisher.stop();
  objects = [...objects, service('api', { clusterIP: '10.96.0.2' })];
  publisher.start();
  change('web');
  publish();
  change('web');
  publish();
  expect(about().slice(1)).toEqual([['Service shop/api'], ['Service shop/web']]);
});

test('reports slices without a Service with a publication', () => {
  objects = [...objects, slice('loose', {}, { labels: {} })];
  publisher.start();
  publish();
  expect(published[0]?.ignored).toMatchObject([
    { code: 'SLICE_WITHOUT_SERVICE', object: 'EndpointSlice shop/loose-1' },
  ]);
  expect(published[0]?.quarantine).toEqual([]);
});

test('names an object with several changes once', async () => {
  publisher.start();
  publish();
  for (let index = 0; index < 10; index++) change('web');
  expect(await pending()).toBe(1);
  publish();
  expect(about()[1]).toEqual(['Service shop/web']);
  expect(await pending()).toBe(0);
});

test('bounds the memory of pending changes while nothing can be rendered', async () => {
  publisher.start();
  objects = [];
  for (let index = 0; index < 30_000; index++) change(`s${index}`);
  expect(await pending()).toBe(10_000);
});

test('measures latency from the first publication of each term on', async () => {
  publisher.start();
  change('web');
  publish();
  expect(await latencies()).toBe(0);
  change('web');
  publish();
  expect(await latencies()).toBe(1);
  change('web');
  publisher.stop();
  nowMs += 7_200_000;
  change('web');
  publisher.start();
  change('web');
  publish();
  expect(await latencies()).toBe(1);
});

/** A Service that cannot be rendered, so its file is read from disk. */
const bad = (): KubeObject => ({
  ...service('web'),
  value: { ...service('web').value, spec: { sessionAffinity: 'Maybe' } },
});

test('reports a disk that cannot be read as a failure', () => {
  publisher.start();
  objects = [bad(), slice('web')];
  textOnDisk = (): never => {
    throw Object.assign(new Error('EIO: i/o error, read'), { syscall: 'read', code: 'EIO' });
  };
  publish();
  expect(failures).toMatchObject([
    [{ code: 'OUTPUT_UNWRITABLE', message: 'Cannot read the bundle: EIO: i/o error, read' }],
  ]);
});

describe('a cluster that suddenly lacks most Services', () => {
  const names = Array.from({ length: 20 }, (_, index) => `s${index}`);
  const objectsOf = (
    some: readonly string[],
    isServed: (name: string) => boolean = () => true,
    address = '10.244.1.5',
  ): readonly KubeObject[] =>
    some.flatMap((name) => [
      service(name, { clusterIP: `10.96.1.${names.indexOf(name) + 1}` }),
      slice(name, { endpoints: isServed(name) ? [endpoint(address)] : [] }),
    ]);
  const [all, few] = [objectsOf(names), objectsOf(names.slice(0, 3))];
  const rules: RemovalRules = { share: 0.5, least: 10, holdMs: 600_000, isMeant: false };
  const start = (more: Partial<RemovalRules> = {}): void => {
    publisher = new Publisher({
      live: new LiveRender(config()),
      tree: new LiveTree(dir),
      textOnDisk: () => undefined,
      filesOnDisk: () => {
        const files = openTree(dir);
        return 'code' in files ? undefined : files;
      },
      removals: { ...rules, ...more },
      metrics,
      clock: { now: () => nowMs, monotonic: () => nowMs },
    });
    publisher.start();
  };
  let held: (Problem | undefined)[];
  const put = (some: readonly KubeObject[]): void => {
    objects = some;
    const result = publisher.publish(new Map(objects.map((one) => [`${one.kind} ${nameOf(one)}`, one])));
    held.push(result.held);
  };
  const inDirectory = (): number => listTree(dir).filter((path) => path.includes('/services/')).length;
  const isHeld = async (): Promise<number | undefined> => (await metrics.removalHeld.get()).values[0]?.value;
  const textOf = (name: string): string =>
    readFileSync(join(dir, `profiles/default/services/shop/${name}.iptables`), 'utf8');

  beforeEach(() => {
    held = [];
    start();
    put(all);
  });

  test('keeps its files, says so, and takes the list that is back', async () => {
    put(few);
    expect(inDirectory()).toBe(20);
    expect(held).toMatchObject([
      undefined,
      { code: 'REMOVAL_HELD', message: expect.stringContaining('17 of 20 Services') },
    ]);
    expect(await isHeld()).toBe(1);
    expect(publisher.isWhole).toBe(true);
    put(objectsOf(names, () => true, '10.244.1.6'));
    expect(held[2]).toBeUndefined();
    expect(await isHeld()).toBe(0);
    expect(textOf('s9')).toContain('10.244.1.6');
  });

  const tell = (name: string, isDeleted: boolean): void =>
    void publisher.changed({ about: `Service shop/${name}`, isEndpoints: false, ...(isDeleted ? { isDeleted } : {}) });

  test('is believed of Services that the server told to be deleted, and of no others', () => {
    for (const name of names.slice(3)) tell(name, true);
    put(few);
    expect([inDirectory(), held[1]]).toEqual([3, undefined]);
    put(all);
    for (const name of names.slice(13)) tell(name, true);
    put(few);
    expect(inDirectory(), 'ten of them are missed').toBe(20);
    put(all);
    put(few);
    expect(held.at(-1), 'what was told is over with the publication').toMatchObject({ code: 'REMOVAL_HELD' });
  });

  test('is believed of Services that a release took away, and of no others', () => {
    const taken = new Set(names.slice(3));
    start({ isTakenAway: (name) => taken.has(name.replace('shop/', '')) });
    put(few);
    expect([inDirectory(), held.at(-1)]).toEqual([3, undefined]);
    put(all);
    taken.clear();
    put(few);
    expect([inDirectory(), held.at(-1)]).toMatchObject([20, { code: 'REMOVAL_HELD' }]);
  });

  test('is held of a Service that was made again behind its deletion', () => {
    for (const name of names.slice(3)) for (const isDeleted of [true, false]) tell(name, isDeleted);
    put(few);
    expect(inDirectory()).toBe(20);
  });

  test('is published once it has stood, without a break', () => {
    put(few);
    nowMs += 599_999;
    put(few);
    expect(inDirectory()).toBe(20);
    put(all);
    nowMs += 1;
    put(few);
    expect(inDirectory(), 'counted again').toBe(20);
    nowMs += 600_000;
    put(few);
    expect(inDirectory()).toBe(3);
    expect(held.at(-1)).toBeUndefined();
  });

  test('is held as long behind one that has stood', () => {
    start({ least: 4 });
    put(objectsOf(names.slice(0, 8)));
    nowMs += 600_000;
    put(objectsOf(names.slice(0, 8)));
    expect(inDirectory()).toBe(8);
    put(objectsOf(names.slice(0, 2)));
    expect(inDirectory()).toBe(8);
  });

  test('is held by a new process, too, which compares with the directory', async () => {
    start();
    for (let look = 0; look < 3; look++) put([]);
    expect(inDirectory()).toBe(20);
    expect(await isHeld()).toBe(1);
    put(all);
    expect(inDirectory()).toBe(20);
    expect(held.at(-1)).toBeUndefined();
  });

  test('is published at once by a process that is told so, and only its first publication', () => {
    start({ isMeant: true });
    put(few);
    expect(inDirectory()).toBe(3);
    put(all);
    put(few);
    expect(inDirectory()).toBe(20);
  });

  test.each([{ holdMs: 0 }, { share: 1 }, { least: 18 }])('is published at once with %o', (more) => {
    start(more);
    put(few);
    expect(inDirectory()).toBe(3);
  });

  test('keeps Services without endpoints, and updates the others meanwhile', () => {
    put(objectsOf(names, (name) => name === 's0', '10.244.1.7'));
    expect([textOf('s0'), textOf('s1')]).toEqual([
      expect.stringContaining('10.244.1.7'),
      expect.stringContaining('10.244.1.5'),
    ]);
    expect(held[1]).toMatchObject({ message: expect.stringContaining('19 of 20 Services') });
    put(objectsOf(names, (name) => name === 's0', '10.244.1.8'));
    expect([textOf('s0'), textOf('s1')]).toEqual([
      expect.stringContaining('10.244.1.8'),
      expect.stringContaining('10.244.1.5'),
    ]);
    nowMs += 600_000;
    put(objectsOf(names, (name) => name === 's0', '10.244.1.8'));
    expect(textOf('s1')).toContain('has no endpoints');
  });
});
