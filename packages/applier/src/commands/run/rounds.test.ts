import { expect, test } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { threadMs } from '../../kernel/processor-time.ts';
import { retries } from '../../limits.ts';
import type { NftLack } from '../../ports/nftables/ports.ts';
import { Status } from '../../observe/status/status.ts';
import { roundOf } from './rounds.ts';

type RoundSession = Parameters<typeof roundOf>[0]['session'];

/** The rounds of a daemon whose clock stands still between them. */
class Rounds {
  nowMs = 0;
  fill: { readonly entries: number; readonly limit: number } | undefined;
  readonly logged: unknown[] = [];
  readonly status = new Status(
    'node-a',
    () => this.nowMs,
    60_000,
    () => this.nowMs,
  );
  readonly #round: () => Promise<void>;

  constructor(session: Partial<RoundSession>) {
    const take = (details: unknown): void => void this.logged.push(details);
    this.#round = roundOf(
      {
        config: { endpoints: { alarmShare: 1 } } as Parameters<typeof roundOf>[0]['config'],
        log: { info: take, warn: take, error: take, fatal: take },
        monotonicMs: () => this.nowMs,
        status: this.status,
        session: {
          reconciler: { endpointShare: 0 },
          journal: { damage: { alarm: undefined } },
          storeDoubt: async () => undefined,
          nftLack: async () => undefined,
          hasGained: async () => false,
          affinityFills: async () => [],
          counting: { counts: async () => ({}), traffic: async () => undefined },
          ...session,
        },
      },
      async () => undefined,
      () => this.logged.push('gained'),
      () => this.fill,
    );
  }

  async after(ms: number): Promise<void> {
    this.nowMs += ms;
    await this.#round();
  }
}

/** Works for so many milliseconds of processor time. */
function work(ms: number): void {
  for (const begin = threadMs(); threadMs() - begin < ms; );
}

test('an nft that cannot write any more raises an alarm with the way out, once, until it can again', async () => {
  let lack: NftLack | undefined;
  const rounds = new Rounds({ nftLack: async () => lack });
  const { logged } = rounds;
  const alarms = async (): Promise<unknown> => {
    await rounds.after(60_000);
    return rounds.status.report().alarms;
  };
  expect(await alarms()).not.toHaveProperty('NFT_CANNOT_WRITE');
  lack = { why: '/usr/sbin/nft crashed', hint: 'Install a newer nft' };
  expect(await alarms()).toMatchObject({ NFT_CANNOT_WRITE: '/usr/sbin/nft crashed. Install a newer nft' });
  await rounds.after(0);
  expect(logged).toEqual([{ alarm: 'NFT_CANNOT_WRITE' }]);
  lack = undefined;
  expect(await alarms()).not.toHaveProperty('NFT_CANNOT_WRITE');
});

test('the pause between two readings of counters grows with what a reading takes, not with other work', async () => {
  const begun = { counts: 0, traffic: 0 };
  let carryOn = (): void => undefined;
  const rounds = new Rounds({
    counting: {
      counts: async (cost) => {
        begun.counts += 1;
        cost.own(() => work(60));
        await new Promise<void>((resolve) => (carryOn = resolve));
        return {};
      },
      traffic: async (cost) => {
        begun.traffic += 1;
        cost.own(() => work(300));
        return undefined;
      },
    },
  });
  await rounds.after(0);
  work(400);
  carryOn();
  await sleep(0);
  // 60 ms are 12 s, 300 ms are 60 s; with other work it would be more than 80 s.
  await rounds.after(11_000);
  expect(begun).toEqual({ counts: 1, traffic: 1 });
  await rounds.after(34_000);
  expect(begun).toEqual({ counts: 2, traffic: 1 });
});

test('looks for what was missing at the start, ever more rarely, and says when it is there', async () => {
  let [asked, isThere] = [0, false];
  const rounds = new Rounds({
    hasGained: async () => {
      asked += 1;
      if (asked === 2) throw new Error('the tool is being replaced');
      return isThere;
    },
  });
  const pauses: number[] = [];
  for (let sinceMs = 0; sinceMs < 3_600_000; sinceMs += 1_000) {
    const before = asked;
    await rounds.after(1_000);
    if (asked > before) pauses.push(sinceMs + 1_000);
  }
  expect(pauses.slice(0, 4)).toEqual([5_000, 15_000, 35_000, 75_000]);
  expect(pauses.at(-1)! - pauses.at(-2)!).toBe(retries.lacks.mostMs);
  isThere = true;
  await rounds.after(retries.lacks.mostMs);
  expect(rounds.logged).toEqual(['gained']);
});

test('a nearly full table of connections is an alarm, which ends with some room and is logged once', async () => {
  const rounds = new Rounds({});
  const told: (string | undefined)[] = [];
  for (const [entries, limit] of [
    [899, 1000],
    [900, 1000],
    [950, 1000],
    [801, 1000],
    [799, 1000],
    [899, 1000],
    [5000, 0],
  ] as const) {
    rounds.fill = { entries, limit };
    await rounds.after(1_000);
    told.push(rounds.status.report().alarms['CONNTRACK_NEARLY_FULL']?.slice(0, 11));
  }
  expect(told).toEqual([undefined, '900 of 1000', '900 of 1000', '900 of 1000', undefined, undefined, undefined]);
  expect(rounds.logged).toEqual([{ alarm: 'CONNTRACK_NEARLY_FULL' }, { alarm: 'CONNTRACK_NEARLY_FULL' }]);
});
