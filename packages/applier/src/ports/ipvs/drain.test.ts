import { expect, test } from 'vitest';
import { continueDrains } from './drain.ts';
import { server } from './states.fixture.ts';
import type { Drain } from './values.ts';

const vip = '10.96.0.1:80/TCP';
const real = '10.244.1.1:8080';
const drain: Drain = { server: vip, real, until: 10_000 };
const observed = { servers: new Map([[vip, server(vip, { [real]: 0, '10.244.1.2:8080': 1 })]]) };
const busy = new Map([[vip, new Map([[real, 3]])]]);
const idle = new Map([[vip, new Map([[real, 0]])]]);
const leaves = '-d -t 10.96.0.1:80 -r 10.244.1.1:8080\n';

test.each([
  ['stays while it has connections', observed, busy, 9_999, [], [drain]],
  ['is removed when they have ended', observed, idle, 1, [leaves], []],
  ['is removed when its time is over', observed, busy, 10_000, [leaves], []],
  ['is removed when its connections are unknown', observed, new Map(), 1, [leaves], []],
  ['is forgotten with its virtual server', { servers: new Map() }, idle, 1, [], []],
  [
    'is no longer draining when it has a weight again',
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
