import type { Problem } from '@sluice/netfilter';
import { describe, expect, test } from 'vitest';
import { bundle, confirmed, generation, quietDaemon, tree } from './daemon.fixture.ts';
import type { Daemon } from './daemon.ts';
import type { Tree } from '../inbox/files.ts';
import type { Arrival } from '../inbox/inbox.ts';
import type { Outcome } from '../ports/outcome.ts';
import type { Generation } from '../ports/journal.ts';
import { Status } from '../observe/status/status.ts';
import type { Offers } from '../apply/transaction/offers.ts';

const problem: Problem = { code: 'NODE_CHAINS_NOT_OURS', level: 'error', message: 'not ours', hint: 'stop it' };
const untrusted: Problem = { ...problem, code: 'RELEASE_UNSIGNED' };

type Opinion = 'same' | 'ready' | { readonly problems: readonly Problem[] };

/**
 * Runs the loop over what the inbox says, one entry a look, and tells what the reconciler was asked.
 * @param answers of `put`, in order; the last one for ever
 * @param opinion of `rehearse`, the same
 */
async function watch(
  looks: readonly Arrival[],
  answers: readonly (Outcome | Error)[],
  machines: readonly string[] = ['a'],
  opinion: Opinion | readonly [Opinion, ...Opinion[]] = 'ready',
) {
  const asked: string[] = [];
  const said: string[] = [];
  const reported: string[] = [];
  const seen: Tree['files'][] = [];
  const status = new Status('node-a', () => 0, 1000);
  const opinions = Array.isArray(opinion) ? (opinion as readonly Opinion[]) : [opinion as Opinion];
  let look = 0;
  let put = 0;
  let rehearsal = 0;
  const say = (level: string) => (_details: object, message: string) =>
    void said.push(`${level} ${message.split(':')[0]}`);
  const daemon: Daemon = quietDaemon({
    reconciler: {
      recover: async () => {
        asked.push('recover');
        return undefined;
      },
      repair: async () => (asked.push('repair'), 0),
      rehearse: async () => {
        asked.push('rehearse');
        return opinions[Math.min(rehearsal++, opinions.length - 1)] ?? 'ready';
      },
      put: async (files) => {
        asked.push(
          `put ${[...looks].flatMap((one) => (one.kind === 'bundle' && one.tree.files === files ? [one.tree.digest] : []))[0]}`,
        );
        const answer = answers[Math.min(put++, answers.length - 1)] ?? confirmed;
        if (answer instanceof Error) throw answer;
        return answer;
      },
    },
    inbox: {
      look: async () => {
        const arrival = looks[look++] as Arrival;
        if (look === looks.length) daemon.stop();
        else daemon.poke();
        return arrival;
      },
    },
    status,
    log: { info: say('info'), warn: say('warn'), error: say('error'), fatal: say('fatal') },
    machine: () => machines[Math.min(look - 1, machines.length - 1)] ?? '',
    ready: () => void asked.push('ready'),
    ended: async (ending, of, onlyEndpoints) =>
      void reported.push(`${ending.kind} ${onlyEndpoints ? 'endpoints of ' : ''}${of?.digest ?? 'nothing'}`),
    waits: async () => void reported.push('waits'),
    seen: (files) => void seen.push(files),
  });
  await daemon.run();
  return { asked, said, reported, seen, report: status.report() };
}

const [a, b] = [tree('a'), tree('b')];

test('finishes what a crash left, then repairs drift, then applies the bundle', async () => {
  expect((await watch([bundle(a)], [confirmed])).asked).toEqual(['recover', 'repair', 'ready', 'put a']);
});

test.each([
  ['an unchanged tree is not put in again', [bundle(a), bundle(a), bundle(b)], ['a'], ['put a', 'put b']],
  ['an address that comes puts the same tree in again', [bundle(a), bundle(a)], ['x', 'y'], ['put a', 'put a']],
  ['a directory that vanishes changes nothing', [bundle(a), { kind: 'absent' }], ['a'], ['put a']],
  ['an incomplete directory changes nothing', [bundle(a), { kind: 'refused', problems: [problem] }], ['a'], ['put a']],
] as const)('%s', async (_title, looks, machines, puts) => {
  const { asked } = await watch(looks, [confirmed], machines);
  expect(asked.filter((one) => one.startsWith('put'))).toEqual(puts);
});

test('retries a refused bundle at every look, logs it once, and clears its alarm when it is applied', async () => {
  const refused: Outcome = { kind: 'refused', refusal: { problems: [problem] } };
  const { asked, said, report } = await watch([bundle(a), bundle(a), bundle(a)], [refused, refused, confirmed]);
  expect(asked.filter((one) => one === 'put a')).toHaveLength(3);
  expect(said).toEqual(['warn refused', 'info confirmed']);
  expect(report).toMatchObject({ healthy: true, alarms: {} });
});

test('applies a bundle again after the last-endpoint delay, and reports it then', async () => {
  const waits: Outcome = { ...confirmed, waitsMs: 0 };
  const { asked, reported } = await watch([bundle(a), bundle(a), bundle(a)], [waits, confirmed]);
  expect(asked.filter((one) => one.startsWith('put'))).toEqual(['put a', 'put a']);
  expect(reported).toEqual(['confirmed a']);
});

test('reports an endpoint-only update with its outcome, also after a refusal', async () => {
  const accepted = { cluster: 'test', serial: 42, revision: 1, digest: 'd'.repeat(64), signers: ['ends'] };
  const update: Arrival = { kind: 'bundle', tree: b, release: { ...accepted, onlyEndpoints: true } };
  const { reported } = await watch([bundle(a), update, { kind: 'refused', problems: [problem] }, update], [confirmed]);
  expect(reported).toEqual(['confirmed a', 'confirmed endpoints of b', 'refused nothing', 'same endpoints of b']);
});

test.each([
  [
    'a refusal leaves the node healthy',
    { kind: 'refused', refusal: { problems: [problem] } },
    true,
    ['NODE_CHAINS_NOT_OURS'],
  ],
  ['a rollback leaves the node healthy', { kind: 'rolled-back', because: 'health' }, true, ['ROLLED_BACK']],
  ['a node that is held is not healthy', { kind: 'held', because: 'x', rollback: 'y' }, false, ['NODE_HELD']],
  ['a kernel that cannot be asked is not healthy', new Error('no iptables'), false, ['KERNEL']],
] as const)('%s', async (_title, outcome, healthy, alarms) => {
  const { report } = await watch([bundle(a)], [outcome]);
  expect(report.healthy).toBe(healthy);
  expect(Object.keys(report.alarms)).toEqual(alarms);
});

test('raises DRIFT_LOOP and slows repairs while another program keeps undoing the rules', async () => {
  let nowMs = 0;
  let drifts = true;
  const settledAt: number[] = [];
  const status = new Status('node-a', () => nowMs, 10_000_000);
  const healthy: boolean[] = [];
  const daemon: Daemon = quietDaemon({
    reconciler: {
      repair: async () => (settledAt.push(nowMs), drifts ? 1 : 0),
      put: async () => confirmed,
    },
    inbox: {
      look: async () => {
        healthy.push(status.report().healthy);
        nowMs += 1000;
        if (nowMs > 200_000) drifts = false;
        if (nowMs > 900_000) daemon.stop();
        else daemon.poke();
        return { kind: 'absent' };
      },
    },
    status,
    monotonicMs: () => nowMs,
  });
  await daemon.run();
  expect(settledAt.slice(0, 8)).toEqual([0, 1000, 2000, 3000, 4000, 5000, 65_000, 125_000]);
  expect(healthy[4]).toBe(true);
  expect(healthy[5]).toBe(false);
  expect(healthy.at(-1)).toBe(true);
});

test('clears the alarms of a refused directory when it is as before', async () => {
  const between: Arrival = { kind: 'refused', problems: [problem] };
  expect((await watch([bundle(a), between], [confirmed])).report.alarms).toEqual({ NODE_CHAINS_NOT_OURS: 'not ours' });
  const { asked, report } = await watch([bundle(a), between, bundle(a)], [confirmed]);
  expect(asked.filter((one) => one === 'put a')).toHaveLength(1);
  expect(report.alarms).toEqual({});
});

const shut: Arrival = {
  kind: 'bundle',
  tree: b,
  waits: {
    wave: 2,
    name: 'rest',
    problem: { code: 'RELEASE_WAITS', level: 'note', message: 'Cannot apply the release yet: wave 2', hint: 'open it' },
  },
};

test('rehearses and logs a release with a closed wave once, and applies it when the wave opens', async () => {
  const { asked, said, report } = await watch([bundle(a), shut, shut], [confirmed]);
  expect(asked).toEqual(['recover', 'repair', 'ready', 'put a', 'rehearse']);
  expect(said).toEqual(['info confirmed', 'info Cannot apply the release yet']);
  expect(report).toMatchObject({ healthy: true, waits: { wave: 2, name: 'rest' }, alarms: {} });
  const between: Arrival = { kind: 'refused', problems: [problem] };
  expect((await watch([shut, between, shut], [confirmed])).report).toMatchObject({ waits: { wave: 2 }, alarms: {} });
  const back = await watch([bundle(a), shut, bundle(a)], [confirmed]);
  expect(back.report.waits).toBeNull();
  const later = await watch([bundle(a), shut, bundle(b)], [confirmed]);
  expect(later.asked.at(-1)).toBe('put b');
  expect(later.report.waits).toBeNull();
});

test('raises an alarm for a waiting release that fails its rehearsal', async () => {
  const { asked, report } = await watch([shut, shut], [confirmed], ['a'], { problems: [problem] });
  expect(asked.filter((one) => one === 'rehearse')).toHaveLength(2);
  expect(report).toMatchObject({ waits: { wave: 2 }, alarms: { NODE_CHAINS_NOT_OURS: 'not ours' } });
});

test('reports that a waiting release is no longer refused, after a rehearsal or when the directory is as before', async () => {
  const refused: Arrival = { kind: 'refused', problems: [untrusted] };
  const opinions = [{ problems: [problem] }, 'ready'] as const;
  const { reported } = await watch([shut, shut, refused, shut], [confirmed], ['a'], opinions);
  expect(reported).toEqual(['refused b', 'waits', 'refused nothing', 'waits']);
});

test('does not wait for a wave when a release leaves the rules of this node unchanged', async () => {
  expect((await watch([shut], [confirmed], ['a'], 'same')).asked.at(-1)).toBe('put b');
});

const half: Problem = { ...problem, code: 'BUNDLE_INCOMPLETE' };
test.each([
  ['each ending', [bundle(a), bundle(a), bundle(b)], ['confirmed a', 'confirmed b']],
  [
    'a directory that is not taken',
    [bundle(a), { kind: 'refused', problems: [untrusted] }],
    ['confirmed a', 'refused nothing'],
  ],
  [
    'that the directory is again what it was',
    [bundle(a), { kind: 'refused', problems: [untrusted] }, bundle(a), bundle(a)],
    ['confirmed a', 'refused nothing', 'same a'],
  ],
  [
    'nothing of a copy that is not complete',
    [bundle(a), { kind: 'refused', problems: [half] }, bundle(a)],
    ['confirmed a'],
  ],
] as const)('reports %s in receipts', async (_title, looks, expected) => {
  expect((await watch(looks, [confirmed])).reported).toEqual(expected);
});

test('offers a tree that arrives during probation once, and reads it again after probation', async () => {
  const looks: Arrival[] = [bundle(a), bundle(a), bundle(b), bundle(b)];
  const asked: string[] = [];
  let look = 0;
  const daemon: Daemon = quietDaemon({
    reconciler: {
      put: async (files, _byHand, offers) => {
        asked.push('put');
        if (files !== a.files) return confirmed;
        for (let arrivals = 0; arrivals < 2; arrivals++) {
          const arrival = offers?.arrival();
          daemon.poke();
          await arrival;
          asked.push((await offers?.look())?.files === b.files ? 'offered b' : 'nothing new');
        }
        return confirmed;
      },
    },
    inbox: {
      look: async () => {
        const arrival = looks[look++] as Arrival;
        if (look === looks.length) daemon.stop();
        return arrival;
      },
    },
  });
  await daemon.run();
  expect(asked).toEqual(['put', 'nothing new', 'offered b', 'put']);
});

test("reads the whole directory at a scan or an operator's request, and the changes after an event", async () => {
  let nowMs = 0;
  const extents: unknown[] = [];
  const next = [
    () => daemon.poke(),
    () => (daemon.poke(), daemon.poke('whole')),
    () => daemon.poke(),
    () => ((nowMs = 1000), daemon.poke()),
    () => daemon.stop(),
  ];
  const daemon: Daemon = quietDaemon({
    reconciler: {
      put: async () => confirmed,
    },
    inbox: {
      look: async (extent) => {
        next[extents.push(extent) - 1]?.();
        return bundle(a);
      },
    },
    monotonicMs: () => nowMs,
  });
  await daemon.run();
  expect(extents).toEqual(['whole', 'changed', 'whole', 'changed', 'whole']);
});

describe('early endpoint sync', () => {
  const at = (revision: number, number = 1): Generation => ({ ...generation, number, revision });
  const refused: Outcome = { kind: 'refused', refusal: { problems: [problem] } };

  /**
   * Runs the loop over what the inbox says, one entry a look, until it has said all.
   * @param put what the reconciler does, with a function that says what stands from then on
   * @returns what the daemon reported, by the digests of trees
   */
  async function follow(
    looks: readonly Tree[],
    put: (stand: (now: Generation) => void, offers: Offers | undefined) => Promise<Outcome>,
  ): Promise<{ readonly reported: string[]; readonly said: string[] }> {
    const [reported, said]: [string[], string[]] = [[], []];
    const journal = { active: at(0), halted: undefined };
    const nameOf = (files: Tree['files']): string => looks.find((one) => one.files === files)?.digest ?? 'nothing';
    let look = 0;
    const daemon: Daemon = quietDaemon({
      reconciler: {
        put: (_files, _byHand, offers) =>
          put((now) => {
            journal.active = now;
            daemon.onEvent('in-kernel', {});
          }, offers),
      },
      journal,
      inbox: {
        look: async () => {
          const one = looks[look++] as Tree;
          if (look === looks.length) daemon.stop();
          else daemon.poke();
          return bundle(one);
        },
      },
      log: {
        info: (_details, message) => void said.push(message),
        warn: (_details, message) => void said.push(message),
      },
      taken: async (files) => void reported.push(`taken ${nameOf(files)}`),
      earlyEndpoints: (files) => void reported.push(`brought ${nameOf(files)}`),
    });
    await daemon.run();
    return { reported, said };
  }

  test('is reported once, and logged, though its release is refused', async () => {
    let revision = 0;
    const { reported, said } = await follow([a, b, b], async (stand) => {
      if (revision < 2) stand(at(++revision));
      return refused;
    });
    expect(reported).toEqual(['brought a', 'brought b']);
    expect(said).toEqual(['refused: 1 problem(s), only endpoints were applied']);
  });

  test('is reported while the release is on probation, and again when it is confirmed', async () => {
    const { reported } = await follow([a, b], async (stand, offers) => {
      stand(at(1));
      await offers?.look();
      stand(at(2));
      stand(at(0, 2));
      return { ...confirmed, generation: at(0, 2) };
    });
    expect(reported).toEqual(['brought a', 'brought b', 'taken a', 'brought b']);
  });

  test('is not reported for a release that is refused as a whole or confirmed', async () => {
    expect((await follow([a], async () => refused)).reported).toEqual([]);
    const { reported } = await follow([a], async (stand) => {
      stand(at(0, 2));
      return { ...confirmed, generation: at(0, 2) };
    });
    expect(reported).toEqual(['taken a']);
  });
});

test('sees what a bundle says of the node, applied or refused, and not in an endpoint update or before its wave', async () => {
  const refused: Outcome = { kind: 'refused', refusal: { problems: [problem] } };
  const release = {
    cluster: 'test',
    serial: 42,
    digest: 'd'.repeat(64),
    signers: ['ends'],
    onlyEndpoints: true,
  } as const;
  const waits = { wave: 2, name: 'rest', problem };
  const looks: Arrival[] = [
    bundle(a),
    { kind: 'bundle', tree: b, waits },
    { kind: 'bundle', tree: b, release },
    bundle(b),
  ];
  const { seen } = await watch(looks, [refused]);
  expect(seen.map((files) => (files === a.files ? 'a' : 'b'))).toEqual(['a', 'b']);
});
