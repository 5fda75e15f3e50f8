// @module-tag test
import { readFileSync, writeFileSync } from 'node:fs';
import { execa } from 'execa';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, expect, test } from 'vitest';
import { oneInTurn } from '../one-in-turn.ts';
import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { limits, paces } from '../../packages/applier/src/limits.ts';
import type { RepairAt } from '../../packages/applier/src/observe/status/repairs.ts';
import { node, withNode } from './node-of-test.ts';
import { needBackend } from './privileges.ts';
import { type DataPlane, modesOnNft, plainPlanes, stores, until } from './sluiced-node.ts';

/** Foreign changes to our rules are detected within seconds, though the next scan is an hour away, and repaired. */

withNode();

/** Applies the first bundle, and waits for the first comparison of the drift watch. */
async function start({ backend, mode }: DataPlane, more = ''): Promise<string> {
  node.writeConfig(backend, more);
  const config = `${node.directory}/sluiced.yaml`;
  writeFileSync(config, readFileSync(config, 'utf8').replace('scanIntervalSeconds: 1', 'scanIntervalSeconds: 3600'));
  writeBundle(`${node.directory}/rendered`, sampleBundle({ families: ['ipv4', 'ipv6'], mode }));
  node.start();
  await until(
    'the bundle is applied',
    async () => node.journal()?.open === null && node.journal()?.current?.number === 1,
  );
  await sleep(
    backend === 'nft' ? limits.monitorTrustMs + paces.comparison.leastMs + 500 : 2 * paces.poll.leastMs + 1_000,
  );
  return held({ backend, mode });
}

/** The rules, or the whole table. */
const held = async ({ backend, mode }: DataPlane): Promise<string> =>
  mode === 'nftables'
    ? node.tool(['sh', '-c', 'nft -n list table inet sluice 2>/dev/null || true'])
    : node.rules(backend);

/** What another program does to packets of Services. */
const flush = async ({ backend, mode }: DataPlane): Promise<string> =>
  node.tool(
    mode === 'nftables'
      ? ['nft', 'flush', 'map', 'inet', 'sluice', 'svc4']
      : [`iptables-${backend}`, '-t', 'nat', '-F', 'SLUICE-SERVICES'],
  );

const lastRepair = async (): Promise<RepairAt | null> =>
  (JSON.parse((await node.get()) ?? '{}') as { lastRepair: never }).lastRepair;

/** What another program does, each with the command. */
async function tamperings({ backend, mode }: DataPlane): Promise<readonly (readonly [string, ...string[]])[]> {
  if (mode === 'nftables')
    return [
      ['what leads packets to endpoints is removed', 'nft', 'flush', 'map', 'inet', 'sluice', 'svc4'],
      ['a chain for IPv6 is flushed', 'nft', 'flush', 'chain', 'inet', 'sluice', 'services6'],
      ['the table is removed', 'nft', 'delete', 'table', 'inet', 'sluice'],
    ];
  const jump = (await node.tool([`iptables-${backend}`, '-t', 'nat', '-S', 'PREROUTING']))
    .split('\n')
    .find((line) => line.endsWith('-j SLUICE-SERVICES'));
  expect(jump).toBeDefined();
  const deletion = (jump ?? '').replace('-A', '-D').replaceAll('"', '').split(' ');
  const comment = deletion.indexOf('--comment') + 1;
  const words = deletion.slice(comment, deletion.indexOf('-j')).join(' ');
  const remove = [...deletion.slice(0, comment), words, ...deletion.slice(deletion.indexOf('-j'))];
  return [
    ['everything of nat is flushed', `iptables-${backend}`, '-t', 'nat', '-F'],
    ['a chain of IPv6 is flushed', `ip6tables-${backend}`, '-t', 'nat', '-F', 'SLUICE-SERVICES'],
    ['our jump is removed', `iptables-${backend}`, '-t', 'nat', ...remove],
  ];
}

/** The program in a report. */
const programs = { iptables: /^ip6?tables(-nft)? \(process \d+\)$/, nftables: /^nft \(process \d+\)$/ };

describe.each(oneInTurn(plainPlanes, 'drift'))('on $backend, mode $mode', { timeout: 240_000 }, ({ backend, mode }) => {
  const plane = { backend, mode };
  beforeEach((context) => needBackend(context, backend));

  test('repairs and reports what another program flushes, edits and removes', async () => {
    const good = await start(plane);
    const reports: (RepairAt | null)[] = [];
    for (const [title, ...command] of await tamperings(plane)) {
      await node.tool(command);
      await until(`${title} and it is repaired`, async () => (await held(plane)) === good, 60_000);
      const known = reports.at(-1)?.at;
      reports.push(
        await until('the daemon reports it', async () => ((await lastRepair())?.at === known ? null : lastRepair())),
      );
    }
    // A repair that changes much can flood the monitor. What happens until it is back is counted, and repaired, without a name.
    const names = reports.map((one) => String(one?.by)).filter((name) => name !== 'null');
    expect(names.length).toBeGreaterThanOrEqual(backend === 'nft' ? 1 : 0);
    expect(names.filter((name) => backend !== 'nft' || !programs[mode].test(name))).toEqual([]);
    const last = reports.at(-1);
    expect(Date.now() - Date.parse(last?.at ?? '')).toBeLessThan(60_000);
    const history = (await node.sluiced('history')).stdout.split('\n').map((line) => line.split('  ')[1]?.trim());
    expect(history).toEqual(['first-run', 'confirmed', 'repaired', 'repaired', 'repaired']);
    expect((await node.sluiced('status')).stdout).toContain(
      `last repair ${last?.at}: rules were changed by ${last?.by ?? 'another program'}`,
    );
  });
});

const foreignStores = oneInTurn(stores, 'foreign rules');

describe.each(foreignStores)('a foreign rule before our jump on %s', { timeout: 120_000 }, (backend) => {
  beforeEach((context) => needBackend(context, backend));
  const insert = [`iptables-${backend}`, '-t', 'nat', '-I', 'PREROUTING'];
  const status = async (): Promise<{
    readonly alarms: Record<string, string>;
    readonly notes: Record<string, string>;
  }> => JSON.parse((await node.get()) ?? '{"alarms":{},"notes":{}}') as never;
  const prerouting = async (): Promise<readonly string[]> =>
    (await node.tool([`iptables-${backend}`, '-t', 'nat', '-S', 'PREROUTING'])).split('\n').slice(1);

  test('raises an alarm with its Services until it is removed, or a note where it cannot be read', async () => {
    await start({ backend, mode: 'iptables' });
    await node.tool(['ipset', 'create', 'theirs', 'hash:ip']);
    await node.tool([...insert, '-m', 'set', '--match-set', 'theirs', 'src', '-j', 'ACCEPT']);
    await until('a note', async () => (await status()).notes['FOREIGN_RULE_UNREAD'], 30_000);
    expect((await status()).alarms).toEqual({});
    await node.tool([...insert, '-d', '10.96.0.11', '-j', 'ACCEPT']);
    const alarm = await until('an alarm', async () => (await status()).alarms['FOREIGN_RULE_FIRST'], 30_000);
    expect(alarm).toContain('iptables -t nat -A PREROUTING -d 10.96.0.11/32 -j ACCEPT (shop/web');
    expect(await node.sluiced('status').then(({ stdout }) => stdout)).toMatch(
      /alarm +FOREIGN_RULE_FIRST[^]*note +FOREIGN_RULE_UNREAD/,
    );
    expect(await prerouting(), 'no rule is moved').toHaveLength(3);
    await node.tool([`iptables-${backend}`, '-t', 'nat', '-D', 'PREROUTING', '1']);
    await until('the alarm is cleared', async () => !('FOREIGN_RULE_FIRST' in (await status()).alarms), 30_000);
  });

  test('is moved behind our jump where the config says so; moving it back repeatedly raises an alarm', async () => {
    await start({ backend, mode: 'iptables' }, 'takeOver: [order]\n');
    for (let times = 0; times <= limits.repairsMax; times++) {
      await node.tool([...insert, '-d', '10.96.0.11', '-j', 'ACCEPT']);
      await until('our jump is first', async () => (await prerouting())[0]?.endsWith('-j SLUICE-SERVICES'), 30_000);
    }
    expect(await prerouting()).toHaveLength(limits.repairsMax + 2);
    await until('an alarm is raised', async () => 'DRIFT_LOOP' in (await status()).alarms);
  });
});

describe.each(oneInTurn(modesOnNft, 'events'))('in mode $mode', ({ backend, mode }) => {
  const plane = { backend, mode };
  beforeEach((context) => needBackend(context, backend));

  test('repairs a flush right after a start within seconds, though another store holds rules, too', {
    timeout: 120_000,
  }, async (context) => {
    needBackend(context, 'legacy');
    await node.tool(['iptables-legacy', '-t', 'nat', '-N', 'CNI-OLD']);
    const good = await start(plane);
    await node.killAll();
    const repairs = async (): Promise<number> =>
      (await node.sluiced('history')).stdout.split('\n').filter((line) => line.includes('  repaired')).length;
    for (let starts = 0; starts < 2; starts++) {
      node.start();
      await until('it runs', async () => node.get());
      for (let times = 1; times <= 3; times++) {
        await flush(plane);
        await until('it is repaired', async () => (await held(plane)) === good, 5_000);
        await until('the repair is recorded', async () => (await repairs()) === 3 * starts + times);
        expect(await held(plane)).toBe(good);
      }
      await node.killAll();
    }
  });

  test('repeated changes raise an alarm and slow repairs down', {
    timeout: 120_000,
  }, async () => {
    const good = await start(plane);
    for (let times = 0; times <= limits.repairsMax; times++) {
      await flush(plane);
      await until('it is repaired', async () => (await held(plane)) === good);
    }
    await until('an alarm is raised', async () => (await node.get())?.includes('DRIFT_LOOP'));
    expect(await node.get('/metrics')).toContain(`sluice_repairs_total ${limits.repairsMax + 1}`);
    await flush(plane);
    await sleep(5_000);
    expect(await held(plane), 'not outrun').not.toBe(good);
  });

  test('xtables-monitor ends with sluiced, and is restarted when it was killed', { timeout: 60_000 }, async () => {
    const good = await start(plane);
    const monitors = async (): Promise<readonly string[]> =>
      (await execa('ip', ['netns', 'pids', node.name])).stdout
        .split('\n')
        .filter((pid) => commandLine(pid).endsWith('xtables-monitor\0--event\0'));
    const [first] = await monitors();
    expect(first).toBeDefined();
    process.kill(Number(first), 'SIGKILL');
    await until('a new xtables-monitor listens', async () => (await monitors()).some((pid) => pid !== first));
    await sleep(limits.monitorTrustMs + 500);
    await flush(plane);
    await until('it is repaired', async () => (await held(plane)) === good);
    await node.killAll();
    await until('no xtables-monitor is left', async () => (await monitors()).length === 0);
  });
});

/** Empty for a process that has ended meanwhile. */
function commandLine(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    return '';
  }
}
