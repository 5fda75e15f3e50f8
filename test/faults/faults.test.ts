// @module-tag quick
import { availableParallelism } from 'node:os';
import { atTier, reaches, seed } from '@sluice/testing';
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { needBackend, needKernel, needStrace } from '../netns/privileges.ts';
import { dataPlanes } from '../netns/sluiced-node.ts';
import { wrongAfterFault, wrongAfterRecovery } from './invariants.ts';
import { FaultPlace, type NodeKind } from './place.ts';
import {
  countStarts,
  errorPoints,
  type Point,
  printPoint,
  programPoints,
  readPoint,
  spread,
  toolPoints,
} from './points.ts';
import { makeScenarios, type Scenario, type ScenarioName, scenarioNames } from './scenarios.ts';

/**
 * The program ends, or a call fails, at every place where it changes something; the next process has to end on the old rules or the
 * new ones. A soak covers every place; otherwise some of each scenario, chosen by the seed of the run, which in tier quick is fixed.
 * `SLUICE_FAULT='nft tree apply: …'`, or `'nftables apply: …'`, or `'counting apply: …'`, runs the places with this prefix
 * (`'counting '`: all scenarios), `SLUICE_POINTS` limits their number.
 */
const wanted = process.env['SLUICE_FAULT'];
const planeName = ({ backend, layout, mode, isCounting }: NodeKind): string =>
  isCounting ? 'counting' : mode === 'nftables' ? mode : `${backend} ${layout}`;
const planes: readonly NodeKind[] = [
  ...dataPlanes,
  { backend: 'nft', layout: 'tree', mode: 'nftables', isCounting: true },
];
const everyDay = ['nft tree', 'nftables'];
const chosenPlanes = atTier({
  quick: everyDay,
  all: [...everyDay, 'legacy tree', 'counting'],
  soak: planes.map(planeName),
});
const chosenKinds = planes.filter((kind) =>
  wanted === undefined ? chosenPlanes.includes(planeName(kind)) : wanted.startsWith(`${planeName(kind)} `),
);
/** The daily work of a node, and a recovery. */
const core: readonly ScenarioName[] = ['apply', 'update', 'probation-fails', 'recover-committed'];
const chosenScenarios =
  wanted === undefined
    ? atTier({ quick: core, test: scenarioNames })
    : scenarioNames.filter((name) => wanted.includes(` ${name}: `) || !wanted.includes(': '));
/** The number of each kind of fault. */
const most = Number(process.env['SLUICE_POINTS'] ?? Infinity);
const kills = {
  iptables: Math.min(atTier({ quick: 32, test: 40, all: 130, soak: Infinity }), most),
  nftables: Math.min(atTier({ quick: 5, test: 20, all: 130, soak: Infinity }), most),
  // Besides its counters it is mode nftables.
  counting: Math.min(atTier({ quick: 36, soak: Infinity }), most),
};
const errors = {
  iptables: Math.min(atTier({ quick: 8, test: 12, all: 30, soak: Infinity }), most),
  nftables: Math.min(atTier({ quick: 1, test: 6, all: 30, soak: Infinity }), most),
  counting: Math.min(atTier({ quick: 12, soak: Infinity }), most),
};
const drawn = reaches('test') ? seed : 1;
const recoverySecondsMax = 10;

interface Attempt {
  readonly scenario: Scenario;
  readonly point: Point;
}

beforeEach(needKernel);
beforeEach(needStrace);

describe.each(chosenKinds)(
  'sluiced on $backend in layout $layout, mode $mode',
  {
    timeout: atTier({ quick: 900_000, soak: 14_400_000 }),
  },
  (kind) => {
    let prepared: Promise<Prepared> | undefined;
    beforeEach((context) => needBackend(context, kind.backend));
    afterAll(async () => (await prepared)?.place.remove());

    test.each([
      ['the program or a tool is killed', 'killed', kills],
      ['a call fails', 'failed', errors],
    ] as const)('%s at any point: the old rules or the new ones', async (_title, choose, counts) => {
      prepared ??= prepare(kind);
      const { place, [choose]: groups } = await prepared;
      const all = [...groups.values()].flat();
      const named = ([name, own]: readonly [string, readonly Attempt[]]) =>
        [name, own.filter((one) => nameOf(kind, one).startsWith(wanted ?? ''))] as const;
      const chosen =
        wanted === undefined
          ? spread(groups, counts[kind.isCounting ? 'counting' : kind.mode], drawn)
          : spread(new Map([...groups].map(named)), most, drawn);
      console.log(`${planeName(kind)}: ${chosen.length} of ${all.length} points`);
      expect(await failures(place, kind, chosen)).toEqual([]);
    });
  },
);

/** A node to start from, and all its faults, by scenario. */
interface Prepared {
  readonly place: FaultPlace;
  readonly killed: ReadonlyMap<string, readonly Attempt[]>;
  readonly failed: ReadonlyMap<string, readonly Attempt[]>;
}

async function prepare(kind: NodeKind): Promise<Prepared> {
  const place = await FaultPlace.make(kind);
  const scenarios = await makeScenarios(place, kind, chosenScenarios);
  const killed = new Map<string, readonly Attempt[]>();
  const failed = new Map<string, readonly Attempt[]>();
  for (const scenario of scenarios) {
    const points = await pointsOf(place, scenario);
    killed.set(
      scenario.name,
      points.kills.map((point) => ({ scenario, point })),
    );
    failed.set(
      scenario.name,
      points.errors.map((point) => ({ scenario, point })),
    );
  }
  return { place, killed, failed };
}

const nameOf = (kind: NodeKind, { scenario, point }: Attempt): string =>
  `${planeName(kind)} ${scenario.name}: ${printPoint(point)}`;

async function pointsOf(
  place: FaultPlace,
  { from, config, args }: Scenario,
): Promise<{ readonly kills: readonly Point[]; readonly errors: readonly Point[] }> {
  const { program, tools } = await place.record(from, config, args);
  const own = programPoints(program, place.state);
  const ofTools = tools.flatMap(([name, trace], index) => toolPoints(index + 1, name, trace));
  return { kills: [...own, ...ofTools], errors: errorPoints(own, countStarts(program)) };
}

/** Runs points, as many in parallel as there are processors. @returns the errors, each with the command that reproduces it */
async function failures(place: FaultPlace, kind: NodeKind, attempts: readonly Attempt[]): Promise<readonly string[]> {
  const queue = [...attempts];
  const found: string[] = [];
  const worker = async (): Promise<void> => {
    for (let attempt = queue.shift(); attempt; attempt = queue.shift()) {
      const wrong = await tryPoint(place, attempt);
      if (wrong.length === 0) continue;
      const again = `SLUICE_FAULT='${nameOf(kind, attempt)}' ./dev test test/faults/faults.test.ts`;
      found.push([...wrong, again].join('\n  '));
      console.log(found.at(-1));
    }
  };
  await Promise.all(Array.from({ length: availableParallelism() }, worker));
  return found;
}

async function tryPoint(place: FaultPlace, { scenario, point }: Attempt): Promise<readonly string[]> {
  const ran = await place.run(scenario.from, scenario.config, scenario.args, point);
  const isKill = point.at === 'tool' || point.fault === 'kill';
  const wrong = [
    ...(isKill ? wrongAfterFault(ran.after, scenario) : []),
    ...wrongAfterRecovery(ran.recovered, scenario),
  ];
  if (ran.recoverySeconds > recoverySecondsMax) wrong.push(`I5: the next process took ${ran.recoverySeconds} s`);
  if (ran.recoveryExitCode !== 0)
    wrong.push(`I5: the next process exited with ${ran.recoveryExitCode}: ${ran.recoveryOutput}`);
  if (/^ +at .+:\d+:\d+\)?$/m.test(ran.output)) wrong.push(`it crashed: ${ran.output}`);
  return wrong.length === 0 ? [] : [...wrong, `it exited with ${ran.exitCode}: ${ran.output}`];
}

test('reads a point back as it was printed', () => {
  const points: readonly Point[] = [
    { at: 'program', call: 'openat', path: '/state/journal', nth: 3, fault: 'ENOSPC+' },
    { at: 'program', call: 'fsync', path: undefined, nth: 1, fault: 'kill' },
    { at: 'tool', tool: 7, call: 'sendmsg', nth: 2, fault: 'orphan' },
  ];
  expect(points.map(printPoint).map(readPoint)).toEqual(points);
});
