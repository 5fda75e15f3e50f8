import { expect, test } from 'vitest';
import { continueDrains, stuckAtZero } from './drain.ts';
import { server } from './states.fixture.ts';
import type { Drain } from './values.ts';

const vip = '10.96.0.1:80/TCP';
const real = '10.244.1.1:8080';
const drain: Drain = { server: vip, real, until: 10_000 };
const seen = { servers: new Map([[vip, server(vip, { [real]: 0, '10.244.1.2:8080': 1 })]]) };
const busy = new Map([[vip, new Map([[real, 3]])]]);
const idle = new Map([[vip, new Map([[real, 0]])]]);
const leaves = '-d -t 10.96.0.1:80 -r 10.244.1.1:8080\n';

test.each([
  ['stays while it has connections', seen, busy, 9_999, [], [drain]],
  ['leaves when they are gone', seen, idle, 1, [leaves], []],
  ['leaves when its time is over', seen, busy, 10_000, [leaves], []],
  ['leaves when nothing is known of connections', seen, new Map(), 1, [leaves], []],
  ['is forgotten with its virtual server', { servers: new Map() }, idle, 1, [], []],
  [
    'is left alone when somebody gave it a weight',
    { servers: new Map([[vip, server(vip, { [real]: 1 })]]) },
    idle,
    1,
    [],
    [],
  ],
])('a real server that drains %s', (_title, state, connections, now, steps, draining) => {
  const next = continueDrains([drain], state, connections, now);
  expect(next.steps.map(({ text }) => text)).toEqual(steps);
  expect(next.draining).toEqual(draining);
});

test('a real server at weight 0 that is wanted with a weight is stuck; one that is wanted so is not', () => {
  const wanted = new Map([[vip, server(vip, { [real]: 1, '10.244.1.2:8080': 0 })]]);
  expect(stuckAtZero(seen, wanted)).toEqual([`${vip} ${real}`]);
  expect(stuckAtZero({ servers: new Map() }, wanted)).toEqual([]);
});
