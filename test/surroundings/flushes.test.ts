// @module-tag test
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { atTier, randomOf, replay, seed } from '@sluice/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { oneInTurn } from '../one-in-turn.ts';
import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { needBackend, needKernel } from '../netns/privileges.ts';
import { type DataPlane, plainPlanes, SluicedNode, until } from '../netns/sluiced-node.ts';
import { confirmFirst, reached } from '../netns/sluiced-probation.ts';
import { type Group, groups, toolsOf } from './cells.ts';
import { TroubledTools } from './troubled-tools.ts';

/**
 * Another program flushes all rules right before the n-th call of each tool of a release: between a reading and the step that follows, around
 * the answers that probes gave before it, the flows that it forgets, and the counters. A bad release is rolled back, a good one confirmed.
 * `packages/applier/src/apply/reconcile/foreign-flush.test.ts` does the same on the fake, at every call.
 */

beforeEach(needKernel);

/** A flush right before a call of one of these tools, by its number since the release arrived. */
interface Point {
  readonly group: Group;
  readonly call: number;
}

/** Calls that a release made in a count of each plane; later ones are of the looks at an idle node. In mode nftables all writers are nft. */
const callsOf = ({ mode }: DataPlane, group: Group): number =>
  ({ ipset: 6, readers: 1 })[group as string] ?? (group === 'writers' && mode === 'nftables' ? 6 : 2);
const pointsOf = (plane: DataPlane): readonly Point[] =>
  groups
    .filter((group) => group !== 'every' && toolsOf(plane, group).length > 0)
    .flatMap((group) => Array.from({ length: callsOf(plane, group) }, (_, at) => ({ group, call: at + 1 })));

/** Releases of a plane: half of them are bad. */
const count = atTier({ quick: 2, test: 4, all: 24, soak: 100 });

const endMs = 180_000;

/** Bundles with a Service of TCP that a probe asks, and one of UDP, so that flows are forgotten. */
function publish(node: SluicedNode, { mode }: DataPlane, web: readonly number[], release: number): void {
  const services = { 'shop/web': web, 'shop/dns': [20 + (release % 2), 22 + (release % 2)] };
  const files = sampleBundle({ services, mode });
  const udp = sampleBundle({ services, mode, protocol: 'udp' });
  for (const [path, text] of udp) if (path.includes('/services/shop/dns')) files.set(path, text);
  const [place, next] = [`${node.directory}/rendered`, `${node.directory}/next`];
  writeBundle(next, files);
  rmSync(place, { recursive: true, force: true });
  renameSync(next, place);
}

async function run(node: SluicedNode, plane: DataPlane): Promise<readonly string[]> {
  const tools = new TroubledTools(node.directory, plane);
  await confirmFirst(node, plane);
  const probe = '{name: web, http: "http://10.96.0.11/", attempts: 2, timeoutSeconds: 0.4, intervalSeconds: 0.2}';
  const more = `probation: {seconds: 1}\nprobes: [${probe}]\nreleases: {perHour: 360}\ncountTraffic: true\n`;
  node.writeConfig(plane.backend, `${more}${plane.mode === 'iptables' ? 'countConnections: true\n' : ''}`);
  const config = `${node.directory}/sluiced.yaml`;
  // As on most nodes: events find a flush, not a scan.
  writeFileSync(config, readFileSync(config, 'utf8').replace('scanIntervalSeconds: 1\n', 'scanIntervalSeconds: 5\n'));
  publish(node, plane, [1, 11], 0);
  expect(await node.apply()).toMatchObject({ exitCode: 0 });
  const daemon = node.start(tools.mount);
  await until('the daemon answers', () => node.get(), endMs);

  const random = randomOf(seed);
  const points = pointsOf(plane);
  const wrong: string[] = [];
  const figures: string[] = [];
  let good = 1;
  for (let release = 1; release <= count; release++) {
    const { group, call } = points[Math.floor(random() * points.length)] as Point;
    const isBad = release % 2 === 0;
    if (!isBad) good = 3 - good;
    const { history: before = [], quarantined = {} } = node.journal() ?? {};
    tools.forget();
    tools.begin(daemon.pid!, { group, trouble: 'flushed' }, call);
    publish(node, plane, isBad ? [90, 91 + release] : [good, good + 10], release);
    const ended = await until(
      'the release has ended',
      async () => {
        const { history = [], open, quarantined: now = {} } = node.journal() ?? {};
        const isJudged = Object.keys(now).length > Object.keys(quarantined).length;
        const last = history.slice(before.length).findLast(({ what }) => what === 'confirmed' || isJudged);
        return open === null && last;
      },
      endMs,
    );
    // A flush after the release is the drift of an idle node.
    tools.end(daemon.pid!);
    const startMs = performance.now();
    const goal = [`10.244.0.${good + 1}:8080`, `10.244.0.${good + 11}:8080`];
    const isServed = async (): Promise<boolean> => {
      const there = await node.endpoints(plane);
      return (await reached(node)) === String(good) && goal.every((one) => there.includes(one));
    };
    await until('clients are served', isServed, endMs);
    const met = tools.met.trim();
    const what = `a ${isBad ? 'bad' : 'good'} release, flushed ${met === '' ? 'never' : `before ${met}`} (${group} ${call})`;
    figures.push(`${what}: served ${Math.round(performance.now() - startMs)} ms after its end`);
    if (ended.what !== (isBad ? 'rolled-back' : 'confirmed')) wrong.push(`${what}: ${ended.what}`);
    if (ended.because?.includes('failing probes')) wrong.push(`${what}: ${ended.because}`);
    if (node.journal()?.held != null) wrong.push(`${what}: halted, ${node.journal()?.held}`);
    // What clients wait for that find nothing is not to meet the next release.
    await sleep(500);
  }
  console.info(`on ${plane.backend}, mode ${plane.mode}:\n${figures.join('\n')}`);
  return wrong;
}

describe('sluiced', { concurrent: true, timeout: 1_800_000 }, () => {
  test.for(oneInTurn(plainPlanes, 'flushes'))(
    'rolls bad releases back and confirms good ones, flushed before a call of a tool, on $backend, mode $mode',
    async (plane, context) => {
      needBackend(context, plane.backend);
      const node = await SluicedNode.make();
      try {
        expect(await run(node, plane), `again: ${replay('test/surroundings/flushes.test.ts')}`).toEqual([]);
      } finally {
        await node.remove();
      }
    },
  );
});
