// @module-tag all
import { availableParallelism } from 'node:os';
import { atTier, seed } from '@sluice/testing';
import { execaSync } from 'execa';
import { afterAll, beforeEach, describe, expect, test, type TestContext } from 'vitest';
import { needBackend, needKernel, needStrace } from '../netns/privileges.ts';
import { wrongAfterRecovery } from './invariants.ts';
import { type Disk, FaultPlace } from './place.ts';
import { type Point, printPoint, programPoints, spread } from './points.ts';
import { makeScenarios, type Scenario } from './scenarios.ts';

/**
 * The power fails between any two writes of `sluiced`: the disk has the data that were synced by then and nothing else, the kernel has no
 * rule. The machine starts on the old rules or the new ones. A soak covers every point, otherwise some by a seed; `SLUICE_POWER` runs one.
 */
const disks: readonly Disk[] = [
  { name: 'ext4', megabytes: 32, make: 'mkfs.ext4 -q -F' },
  { name: 'xfs', megabytes: 300, make: 'mkfs.xfs -q -f' },
];
const wanted = process.env['SLUICE_POWER'];
/** The limit for each file system. */
const cuts = Math.min(atTier({ quick: 10, all: 20, soak: Infinity }), Number(process.env['SLUICE_POINTS'] ?? Infinity));

/** Skips where the machine has no loop devices or lacks the tools. */
function needDisk(context: TestContext, { name, megabytes, make }: Disk): void {
  const script = [
    'mount -t tmpfs tmpfs /mnt',
    `truncate -s ${megabytes}M /mnt/image`,
    `${make} /mnt/image`,
    'mkdir /mnt/disk',
    'mount -o loop /mnt/image /mnt/disk',
    'perl -e 1',
  ].join(' && ');
  const { failed, stderr } = execaSync('unshare', ['--mount', 'sh', '-c', script], { reject: false });
  if (failed) context.skip(`${name} in a file cannot be mounted here: ${stderr.trim()}`);
}

interface Cut {
  readonly scenario: Scenario;
  readonly point: Point;
}

const nameOf = (disk: Disk, mode: string, { scenario, point }: Cut): string =>
  `${disk.name} ${mode} ${scenario.name}: ${printPoint(point)}`;

const modes = ['iptables', 'nftables'] as const;
const prepared = new Map<string, Promise<PreparedDisk>>();

beforeEach(needKernel);
beforeEach(needStrace);
beforeEach((context) => needBackend(context, 'nft'));
afterAll(async () => {
  for (const one of prepared.values()) (await one).place.remove();
});

/** A node to start from, and every write of its program, by scenario. */
interface PreparedDisk {
  readonly place: FaultPlace;
  readonly groups: ReadonlyMap<string, readonly Cut[]>;
}

async function prepare(mode: (typeof modes)[number]): Promise<PreparedDisk> {
  const kind = { backend: 'nft', layout: 'tree', mode } as const;
  const place = await FaultPlace.make(kind);
  const groups = new Map<string, readonly Cut[]>();
  for (const scenario of await makeScenarios(place, kind)) {
    const { program } = await place.record(scenario.from, scenario.config, scenario.args);
    groups.set(
      scenario.name,
      programPoints(program, place.state).map((point) => ({ scenario, point })),
    );
  }
  return { place, groups };
}

describe.each(disks)(
  'a power cut with the state directory on $name',
  { timeout: atTier({ quick: 600_000, soak: 7_200_000 }) },
  (disk) => {
    beforeEach((context) => needDisk(context, disk));

    test.for(modes)('leaves a node in mode %s that starts on the old rules or the new ones', async (mode) => {
      const made = prepared.get(mode) ?? prepare(mode);
      prepared.set(mode, made);
      const { place, groups } = await made;
      const all = [...groups.values()].flat();
      const chosen =
        wanted === undefined ? spread(groups, cuts, seed) : all.filter((one) => nameOf(disk, mode, one) === wanted);
      console.log(`${disk.name} ${mode}: ${chosen.length} of ${all.length} points`);
      const queue = [...chosen];
      const wrong: string[] = [];
      const worker = async (): Promise<void> => {
        for (let cut = queue.shift(); cut; cut = queue.shift()) wrong.push(...(await tryCut(place, disk, cut, mode)));
      };
      await Promise.all(Array.from({ length: availableParallelism() }, worker));
      expect(wrong).toEqual([]);
    });
  },
);

async function tryCut(place: FaultPlace, disk: Disk, cut: Cut, mode: string): Promise<readonly string[]> {
  const { scenario, point } = cut;
  const { exitCode, output, recovered } = await place.cutPower(disk, scenario, point);
  const wrong = [...wrongAfterRecovery(recovered, scenario)];
  if (exitCode !== 0) wrong.push(`boot exited with ${exitCode}: ${output}`);
  const again = `SLUICE_POWER='${nameOf(disk, mode, cut)}' ./dev test test/faults/power.test.ts`;
  return wrong.length === 0 ? [] : [[...wrong, output, again].join('\n  ')];
}
