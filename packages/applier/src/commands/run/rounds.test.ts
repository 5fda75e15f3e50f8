import { expect, test } from 'vitest';
import type { NftLack } from '../../nftables/ports.ts';
import { Status } from '../../status/status.ts';
import { roundOf } from './rounds.ts';

test('an nft that cannot write any more raises an alarm with the way out, once, until it can again', async () => {
  let nowMs = 0;
  let lack: NftLack | undefined;
  const logged: unknown[] = [];
  const status = new Status(
    'node-a',
    () => nowMs,
    60_000,
    () => nowMs,
  );
  const take = (details: unknown): void => void logged.push(details);
  const round = roundOf(
    {
      config: { endpoints: { alarmShare: 1 } } as Parameters<typeof roundOf>[0]['config'],
      log: { info: take, warn: take, error: take, fatal: take },
      monotonicMs: () => nowMs,
      processorMs: () => 0,
      status,
      session: {
        reconciler: { endpointShare: 0 },
        storeDoubt: async () => undefined,
        nftLack: async () => lack,
        affinityFills: async () => [],
        counting: { counts: async () => ({}), traffic: async () => undefined },
      },
    },
    async () => undefined,
  );
  const alarms = async (): Promise<unknown> => {
    nowMs += 60_000;
    await round();
    return status.report().alarms;
  };
  expect(await alarms()).not.toHaveProperty('NFT_CANNOT_WRITE');
  lack = { why: '/usr/sbin/nft crashed', hint: 'Install a newer nft' };
  expect(await alarms()).toMatchObject({ NFT_CANNOT_WRITE: '/usr/sbin/nft crashed. Install a newer nft' });
  await round();
  expect(logged).toEqual([{ alarm: 'NFT_CANNOT_WRITE' }]);
  lack = undefined;
  expect(await alarms()).not.toHaveProperty('NFT_CANNOT_WRITE');
});
