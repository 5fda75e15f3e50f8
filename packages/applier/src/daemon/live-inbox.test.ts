import type { BundleFiles } from '@sluice/bundle';
import { refusal } from '@sluice/netfilter';
import { beforeEach, expect, test } from 'vitest';
import type { Tree } from '../inbox/files.ts';
import type { ArrivedBundle, Arrival } from '../inbox/inbox.ts';
import type { WaitingRelease } from '../inbox/wave-gate.ts';
import { liveLimits } from '../limits.ts';
import { LiveInbox } from './live-inbox.ts';

/** Which release arrives with live endpoints, and what goes on while none may be applied. */

const treeOf = (name: string): Tree => ({ files: new Map([['name', name]]), digest: name });
const [one, two, live] = [treeOf('one'), treeOf('two'), treeOf('live')];
const bundle = (tree: Tree, more: Partial<ArrivedBundle> = {}): ArrivedBundle => ({ kind: 'bundle', tree, ...more });
const waits = { wave: 2, name: 'others' } as WaitingRelease;
const absent: Arrival = { kind: 'absent' };
const refused: Arrival = { kind: 'refused', problems: [] };

let scene: {
  released: Arrival;
  live: Arrival;
  hasRules: boolean;
  nowMs: number;
  declined: ReadonlyMap<string, string>;
};
let inbox: LiveInbox;
beforeEach(() => {
  scene = { released: bundle(one), live: bundle(live), hasRules: true, nowMs: 0, declined: new Map() };
  const look = async (): Promise<Arrival> => scene.released;
  const made = new Map<string, BundleFiles>();
  inbox = new LiveInbox({
    released: { look, lookInSteps: look, wasWhole: false },
    live: { look: async () => scene.live },
    endpointsOf: (release) => ({
      with: (its) => {
        const name = `${release.get('name')} with ${its.get('name')}`;
        const files = made.get(name) ?? new Map([['name', name]]);
        made.set(name, files);
        return { files, version: `version of ${release.get('name')}`, declined: scene.declined };
      },
    }),
    hasRules: () => scene.hasRules,
    monotonicMs: () => scene.nowMs,
    waitMs: liveLimits.waitMs,
  });
});

/** The arrival in words: what it is, and what goes on meanwhile. */
async function told(): Promise<readonly string[]> {
  const arrival = await inbox.look();
  const nameOf = ({ tree, live: its }: ArrivedBundle): string =>
    [tree.files.get('name'), its?.version ?? 'as it came', its?.onlyEarly ? 'endpoints alone' : '']
      .filter(Boolean)
      .join(', ');
  const { meanwhile, note } = arrival;
  return [
    arrival.kind === 'bundle' ? nameOf(arrival) : arrival.kind,
    ...(meanwhile ? [`meanwhile ${nameOf(meanwhile)}`] : []),
    ...(note === undefined ? [] : [note]),
  ];
}

test('a release arrives with its live endpoints, as the same tree while nothing changes', async () => {
  expect(await told()).toEqual(['one with live, version of one']);
  const [first, second] = [await inbox.look(), await inbox.lookInSteps(new AbortController().signal)];
  expect(first).toMatchObject({ tree: { digest: 'one' }, live: { released: one } });
  expect(second).toMatchObject({ tree: (first as ArrivedBundle).tree });
  scene.live = bundle(treeOf('newer'));
  expect(await told()).toEqual(['one with newer, version of one']);
});

test('says which Services of the cluster the release lacks, beside those that are not taken', async () => {
  const items = ['a', 'b', 'c', 'd', 'e', 'f'].map(
    (name) => `  - object: Service shop/${name}
    rules: none
    problems:
      - code: RELEASE_WITHOUT_SERVICE
`,
  );
  const other = '  - object: Service shop/bad\n    rules: none\n    problems:\n      - code: FIELD_VALUE\n';
  scene.live = bundle({
    files: new Map([
      ['name', 'live'],
      ['quarantine.yaml', `${items[0]}${other}`],
    ]),
    digest: 'l1',
  });
  expect((await told()).slice(1)).toEqual(['Services of the cluster are not in its release and not served: shop/a']);
  scene.live = bundle({
    files: new Map([
      ['name', 'live'],
      ['quarantine.yaml', items.join('')],
    ]),
    digest: 'l2',
  });
  scene.declined = new Map([['shop/web', 'its port is another one']]);
  expect((await told()).slice(1)).toEqual([
    'live endpoints are not taken of shop/web: its port is another one; Services of the cluster are not in its release and not served: shop/a; shop/b; shop/c; shop/d; shop/e; 1 more',
  ]);
  scene.declined = new Map();
  scene.live = bundle(treeOf('later'));
  expect(await told()).toHaveLength(1);
});

test('keeps the last live endpoints while their directory is being written, or is lost', async () => {
  await told();
  for (const found of [refused, absent]) {
    scene.live = found;
    expect(await told()).toEqual(['one with live, version of one']);
  }
});

test('says that live endpoints cannot be read once their writer has had its time, and since when', async () => {
  await told();
  scene.nowMs = 5_000;
  scene.live = { kind: 'refused', problems: [refusal('BUNDLE_UNTRUSTED', 'x is writable', 'none')] };
  expect(await told()).toEqual(['one with live, version of one']);
  scene.nowMs += liveLimits.waitMs;
  expect(await told()).toEqual([
    'one with live, version of one',
    'live endpoints are not read, and stay as they were: x is writable',
  ]);
  expect(await inbox.look()).toMatchObject({ unreadLive: { why: 'x is writable', sinceMs: 5_000 } });
  // As at a boot without the API server, which makes no node unhealthy.
  scene.live = absent;
  expect((await told())[1]).toContain('the directory of endpoints.live does not exist');
  expect(await inbox.look()).not.toHaveProperty('unreadLive');
  scene.live = bundle(live);
  expect(await told()).toEqual(['one with live, version of one']);
});

test.each([
  ['refused', refused],
  ['absent', absent],
])('the release before goes on while the one in the directory is %s', async (kind, found) => {
  await told();
  scene.released = found;
  scene.live = bundle(treeOf('newer'));
  expect(await told()).toEqual([kind, 'meanwhile one with newer, version of one']);
});

test('the release before goes on while the next one waits for its wave', async () => {
  await told();
  scene.released = bundle(two, { waits });
  expect(await told()).toEqual(['two with live, version of two', 'meanwhile one with live, version of one']);
  scene.released = bundle(two);
  expect(await told()).toEqual(['two with live, version of two']);
});

test('after a restart, the endpoints alone of a release that waits go in', async () => {
  scene.released = bundle(two, { waits });
  expect(await told()).toEqual([
    'two with live, version of two',
    'meanwhile two with live, version of two, endpoints alone',
  ]);
});

test('without live endpoints a node keeps its rules, and one without rules takes the release as it came', async () => {
  scene.live = absent;
  expect(await inbox.look()).toMatchObject({
    kind: 'refused',
    problems: [{ code: 'BUNDLE_INCOMPLETE', message: expect.stringContaining('does not exist') }],
  });
  scene.hasRules = false;
  expect(await told()).toEqual(['one, as it came']);
});

test('a new release waits for a moment for live endpoints that fit it', async () => {
  await told();
  scene.released = bundle(two);
  scene.declined = new Map([['shop/web', 'its port is another one']]);
  const note = 'live endpoints are not taken of shop/web: its port is another one';
  expect(await told()).toEqual(['refused', 'meanwhile one with live, version of one', note]);
  scene.nowMs = liveLimits.waitMs;
  expect(await told()).toEqual(['two with live, version of two', note]);
  scene.nowMs = 0;
  expect(await told()).toEqual(['two with live, version of two', note]);
});
