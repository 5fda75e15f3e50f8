// @module-tag test
import { readFileSync, writeFileSync } from 'node:fs';
import { execa } from 'execa';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, expect, test } from 'vitest';
import { oneInTurn } from '../one-in-turn.ts';
import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { limits } from '../../packages/applier/src/limits.ts';
import { node, withNode } from './node-of-test.ts';
import { needBackend } from './privileges.ts';
import { type DataPlane, until } from './sluiced-node.ts';

/** The event monitor hears nothing, and another program removes our rules: how long are Services away? */

/** A generous bound for busy machines; the figures are printed. */
const awayMsMax = 15_000;

withNode();

interface Plane extends DataPlane {
  readonly layout?: 'tree' | 'flat';
}

const planes: readonly Plane[] = [
  { backend: 'nft', mode: 'iptables' },
  { backend: 'nft', mode: 'nftables' },
  { backend: 'nft', mode: 'iptables', layout: 'flat' },
];

const services = Object.fromEntries(Array.from({ length: 200 }, (_, n) => [`shop/s${n}`, [10 + (n % 200)]] as const));

async function start({ backend, mode, layout = 'tree' }: Plane): Promise<string> {
  node.writeConfig(backend, `layout: ${layout}\n`);
  const config = `${node.directory}/sluiced.yaml`;
  writeFileSync(config, readFileSync(config, 'utf8').replace('scanIntervalSeconds: 1\n', ''));
  writeBundle(`${node.directory}/rendered`, sampleBundle({ services, families: ['ipv4', 'ipv6'], mode }));
  node.start();
  await until(
    'the bundle is applied',
    async () => node.journal()?.open === null && node.journal()?.current?.number === 1,
  );
  // The first comparison follows when the monitor is relied on.
  await sleep(limits.monitorTrustMs + limits.hearPauseMs + limits.readBackMs + 1_000);
  return node.forwarding({ backend, mode });
}

/** Those that read: the count of changes is a stopped one with another option. */
async function monitors(): Promise<readonly number[]> {
  const pids = (await execa('ip', ['netns', 'pids', node.name])).stdout.split('\n');
  const isMonitor = (pid: string): boolean => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').endsWith('xtables-monitor\0--event\0');
    } catch {
      return false;
    }
  };
  return pids.filter(isMonitor).map(Number);
}

const monitor = async (): Promise<number> => until('a monitor runs', async () => (await monitors())[0]);

const flush = async ({ mode }: DataPlane): Promise<unknown> =>
  mode === 'nftables'
    ? node.tool(['nft', 'delete', 'table', 'inet', 'sluice'])
    : node.tool(['iptables-nft', '-t', 'nat', '-F']);

interface Away {
  readonly ms: number;
  /** What `/healthz` answered meanwhile, each once. */
  readonly healthz: string;
}

async function away(plane: DataPlane, good: string): Promise<Away> {
  const sinceMs = performance.now();
  const healthz = new Set<string>();
  await flush(plane);
  await until(
    'repaired',
    async () => {
      healthz.add(await node.tool(askHealth).catch(() => 'nothing'));
      return (await node.forwarding(plane)) === good;
    },
    120_000,
  );
  return { ms: Math.round(performance.now() - sinceMs), healthz: [...healthz].join(' and ') };
}

const askHealth = ['curl', '-s', '-o', '/dev/null', '-m', '2', '-w', '%{http_code}', 'http://127.0.0.1:10276/healthz'];

describe.each(oneInTurn(planes, 'deaf'))('on $backend, mode $mode', { timeout: 240_000 }, (plane) => {
  const { backend, mode } = plane;
  beforeEach((context) => needBackend(context, backend));

  const deafnesses: readonly (readonly [string, () => Promise<unknown>])[] = [
    ['is stopped', async () => process.kill(await monitor(), 'SIGSTOP')],
    ['is overrun by sets of another program', flood],
  ];

  test.each(deafnesses)(
    'while the monitor %s, the rules are back soon, and a stopped one is replaced',
    async (title, deafen) => {
      const good = await start(plane);
      const heard = await away(plane, good);
      const first = await monitor();
      await deafen();
      const deaf = await away(plane, good);
      // oxlint-disable-next-line no-console -- figures for docs/performance.md
      console.log(
        `Services away in mode ${mode}: ${heard.ms} ms, and while the monitor ${title} ${deaf.ms} ms; /healthz: ${heard.healthz}, ${deaf.healthz}`,
      );
      // A busy machine takes as long as it does for what it hears.
      expect(deaf.ms).toBeLessThan(awayMsMax + heard.ms);
      if (title === 'is stopped')
        await until('another monitor runs', async () => (await monitors()).some((pid) => pid !== first));
    },
  );
});

/** Loads large sets again and again, for longer than a test needs. */
async function flood(): Promise<void> {
  const elements = Array.from({ length: 65_536 }, (_, n) => `10.0.${n >> 8}.${n & 255}`).join(', ');
  const file = `${node.directory}/large.nft`;
  writeFileSync(
    file,
    `add table inet q\nadd set inet q s { type ipv4_addr; }\nflush set inet q s\nadd element inet q s { ${elements} }\n`,
  );
  node.startProgram(['sh', '-c', `while :; do nft -f ${file}; sleep 0.2; done`]);
  await sleep(3_000);
}
