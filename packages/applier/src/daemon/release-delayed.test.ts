import { serviceFile } from '@sluice/bundle';
import type { Problem } from '@sluice/netfilter';
import { expect, test } from 'vitest';
import type { Arrival } from '../inbox/inbox.ts';
import type { Outcome } from '../ports/outcome.ts';
import { Status } from '../observe/status/status.ts';
import { generation, quietDaemon } from './daemon.fixture.ts';

const waiting: Outcome = {
  kind: 'refused',
  refusal: {
    problems: [
      {
        code: 'RELEASES_TOO_MANY',
        level: 'error',
        message: 'Cannot apply version v2 (Services shop/a) yet: many failed',
        hint: 'wait',
      },
    ],
    isWaiting: true,
  },
};
const quarantined: Outcome = {
  kind: 'refused',
  refusal: { problems: [{ code: 'BUNDLE_QUARANTINED', level: 'error', message: 'bad', hint: 'none' }] },
};

/** Puts a bundle at each of these times; the answers are those of the reconciler. @returns health after each */
async function healthAt(times: readonly number[], answers: readonly Outcome[]) {
  let look = 0;
  const nowMs = (): number => times[Math.max(look - 1, 0)] ?? 0;
  const status = new Status('node-a', () => 0, 1000);
  status.clear('NO_GENERATION');
  const seen: (string | undefined)[] = [];
  const daemon = quietDaemon({
    reconciler: { put: async () => answers[look - 1] as Outcome },
    inbox: {
      look: async (): Promise<Arrival> => {
        look++;
        return { kind: 'bundle', tree: { files: new Map(), digest: `d${look}` } };
      },
    },
    status,
    monotonicMs: nowMs,
    releaseWaitMsMax: 25_000,
    round: async () => {
      const { healthy, alarms } = status.report();
      seen.push(healthy ? undefined : alarms['RELEASE_DELAYED']);
      if (look === times.length) daemon.stop();
      else daemon.poke();
    },
  });
  await daemon.run();
  return seen;
}

test('is unhealthy once a limit delays releases for longer than a probation, and names what waits', async () => {
  const confirmed: Outcome = { kind: 'confirmed', generation, steps: 1 };
  const seen = await healthAt([0, 24_999, 25_000, 26_000, 27_000], [waiting, waiting, waiting, confirmed, waiting]);
  expect(seen).toEqual([undefined, undefined, expect.stringContaining('v2 (Services shop/a)'), undefined, undefined]);
});

test.each(['NODE_CANNOT_REHEARSE', 'NODE_RULES_UNSTEADY'] as const)(
  'so it is with what %s keeps out, also between two tries, and until it is in',
  async (code) => {
    const message = `Cannot rehearse (${code})`;
    const refused: Outcome = { kind: 'refused', refusal: { problems: [{ code, level: 'error', message, hint: '' }] } };
    const confirmed: Outcome = { kind: 'confirmed', generation, steps: 1 };
    const seen = await healthAt([0, 30_000, 31_000, 60_000], [refused, refused, refused, confirmed]);
    expect(seen).toEqual([undefined, message, message, undefined]);
  },
);

/** Services `shop/…` of a bundle, each with the text of its file. */
const bundleOf = (services: Readonly<Record<string, string>>): ReadonlyMap<string, string> =>
  new Map(Object.entries(services).map(([name, text]) => [serviceFile('default', 'shop', name, 'iptables'), text]));

/** Looks at each of these times at a bundle, or at a directory that cannot be read. @returns the alarm after each */
async function lateAt(
  looks: readonly (readonly [atMs: number, files: ReadonlyMap<string, string>, Outcome | 'unread'])[],
  unreadLive?: (look: number) => Arrival['unreadLive'],
) {
  let look = 0;
  const status = new Status('node-a', () => 0, 1000);
  status.clear('NO_GENERATION');
  const seen: (string | undefined)[] = [];
  const at = () => looks[Math.max(look - 1, 0)] ?? looks[0]!;
  const daemon = quietDaemon({
    reconciler: { put: async () => at()[2] as Outcome },
    inbox: {
      look: async (): Promise<Arrival> => {
        look++;
        const [, files, outcome] = at();
        const unread: Problem = { code: 'BUNDLE_INVALID', level: 'error', message: 'half of it is there', hint: '' };
        if (outcome === 'unread') return { kind: 'refused', problems: [unread] };
        const live = unreadLive?.(look);
        return { kind: 'bundle', tree: { files, digest: `d${look}` }, ...(live && { unreadLive: live }) };
      },
    },
    status,
    monotonicMs: () => at()[0],
    ...(unreadLive ? { liveLateMsMax: 60_000 } : { lateMsMax: 60_000 }),
    round: async () => {
      const { healthy, alarms } = status.report();
      expect(healthy).toBe(alarms['SERVICES_LATE'] === undefined);
      expect(status.proxyView.healthy).toBe(healthy);
      seen.push(alarms['SERVICES_LATE']);
      if (look === looks.length) daemon.stop();
      else daemon.poke();
    },
  });
  await daemon.run();
  return seen;
}

const taken: Outcome = { kind: 'confirmed', generation, steps: 1 };

test('is unhealthy once the kernel lacks Services of the API server for too long, and names them, until it has them', async () => {
  const [before, now] = [bundleOf({ a: '1', b: '1', c: '1' }), bundleOf({ a: '1', b: '2', d: '1' })];
  const seen = await lateAt([
    [0, before, taken],
    [1_000, now, quarantined],
    [60_999, now, quarantined],
    [61_000, now, quarantined],
    [62_000, now, taken],
    [200_000, before, quarantined],
  ]);
  const late = 'The kernel lacks Services shop/b, shop/d: bad; for 60 s';
  expect(seen).toEqual([undefined, undefined, undefined, late, undefined, undefined]);
});

test('so it is with a directory that cannot be read for so long', async () => {
  const files = bundleOf({ a: '1' });
  const seen = await lateAt([
    [0, files, taken],
    [1_000, files, 'unread'],
    [90_000, files, 'unread'],
    [91_000, files, taken],
  ]);
  expect(seen).toEqual([undefined, undefined, expect.stringContaining('half of it is there'), undefined]);
});

test('stays healthy beside a removal that is held: a load balancer must not take out all nodes', async () => {
  const held: Outcome = {
    kind: 'refused',
    refusal: { problems: [{ code: 'REMOVAL_HELD', level: 'error', message: 'most are gone', hint: 'none' }] },
  };
  expect(await healthAt([0, 600_000], [held, held])).toEqual([undefined, undefined]);
  const files = bundleOf({ a: '1' });
  expect(
    await lateAt([
      [0, files, held],
      [600_000, files, held],
    ]),
  ).toEqual([undefined, undefined]);
});

test('stays healthy beside a version that is quarantined: the rules are those that served before', async () => {
  expect(await healthAt([0, 60_000], [quarantined, quarantined])).toEqual([undefined, undefined]);
});

test('so it is with live endpoints that cannot be read, beside a release that is in or waits for a review', async () => {
  const files = bundleOf({ a: '1' });
  const seen = await lateAt(
    [
      [0, files, taken],
      [30_000, files, quarantined],
      [61_000, files, taken],
      [62_000, files, quarantined],
      [63_000, files, quarantined],
    ],
    (look) => (look === 2 || look === 3 || look === 4 ? { why: 'x is writable', sinceMs: 1_000 } : undefined),
  );
  const late = (seconds: number): string => `Live endpoints are not read: x is writable; for ${seconds} s`;
  expect(seen).toEqual([undefined, undefined, late(60), late(61), undefined]);
});
