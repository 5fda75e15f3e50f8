import { expect, test } from 'vitest';
import type { Arrival } from '../inbox/inbox.ts';
import type { Outcome } from '../ports/outcome.ts';
import { Status } from '../status/status.ts';
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

test('stays healthy beside a removal that is held: a load balancer must not take out all nodes', async () => {
  const held: Outcome = {
    kind: 'refused',
    refusal: { problems: [{ code: 'REMOVAL_HELD', level: 'error', message: 'most are gone', hint: 'none' }] },
  };
  expect(await healthAt([0, 600_000], [held, held])).toEqual([undefined, undefined]);
});

test('stays healthy beside a version that is quarantined: the rules are those that served before', async () => {
  expect(await healthAt([0, 60_000], [quarantined, quarantined])).toEqual([undefined, undefined]);
});
