import { availableParallelism } from 'node:os';
import { atTier, inTurn, programPath, reaches, seed } from '@sluice/testing';
import { execaSync } from 'execa';
import { afterAll, beforeEach } from 'vitest';
import { needBackend, needKernel, needStrace } from '../netns/privileges.ts';
import { dataPlanes } from '../netns/sluiced-node.ts';
import { wrongAfterFault, wrongAfterRecovery } from './invariants.ts';
import { FaultPlace, type NodeKind } from './place.ts';
import { countStarts, errorPoints, type Point, printPoint, programPoints, spread, toolPoints } from './points.ts';
import { makeScenarios, type Scenario, type ScenarioName, scenarioNames } from './scenarios.ts';

/**
 * The program ends, or a call fails, at every place where it changes something; the next process has to end on the old rules or the
 * new ones. A soak covers every place; otherwise some of the chosen scenarios, by the seed of the run, which in tier quick is fixed.
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
/** Recording the calls of a scenario takes as long as trying ten of them, so the others take turns. */
const turn = inTurn(
  scenarioNames.filter((name) => !core.includes(name)),
  3,
);
const chosenScenarios =
  wanted === undefined
    ? atTier({ quick: core, test: [...core, ...turn] })
    : scenarioNames.filter((name) => wanted.includes(` ${name}: `) || !wanted.includes(': '));
const most = Number(process.env['SLUICE_POINTS'] ?? Infinity);
/** Besides its counters a node that counts is one of mode nftables. */
const ofCounting = { killed: atTier({ quick: 36, soak: Infinity }), failed: atTier({ quick: 12, soak: Infinity }) };
const drawn = reaches('test') ? seed : 1;
/** Of the next process, where a start of the program takes less than `usualStartSeconds`; else in proportion, as the machine is slow. */
const recoverySecondsMax = 10;
const usualStartSeconds = 0.4;

/** How long the program takes to start at this moment. */
function startSeconds(): number {
  const beginMs = performance.now();
  execaSync(programPath('sluiced'), ['version']);
  return (performance.now() - beginMs) / 1000;
}

interface Attempt {
  readonly scenario: Scenario;
  readonly point: Point;
}

/** What ends or fails at a point, and at how many points of a node. */
export const waysFor = (kills: number, errors: number): readonly Way[] => [
  ['the program or a tool is killed', 'killed', kills],
  ['a call fails', 'failed', errors],
];
type Way = readonly [title: string, choose: 'killed' | 'failed', count: number];

/** For what hangs. */
export const timeout = atTier({ quick: 900_000, soak: 14_400_000 });

/** The chosen kinds of nodes of a mode. */
export const nodesOf = (mode: NodeKind['mode']): readonly NodeKind[] =>
  chosenKinds.filter((kind) => kind.mode === mode);

/** Sets the hooks of a kind of nodes. @returns what tries points of it, and returns what is wrong, each with the command that reproduces it */
export function triesPoints(kind: NodeKind): (...way: Way) => Promise<readonly string[]> {
  let prepared: Promise<Prepared> | undefined;
  beforeEach(needKernel);
  beforeEach(needStrace);
  beforeEach((context) => needBackend(context, kind.backend));
  afterAll(async () => (await prepared)?.place.remove());

  return async (_title, choose, count) => {
    prepared ??= prepare(kind);
    const { place, [choose]: groups } = await prepared;
    const all = [...groups.values()].flat();
    const named = ([name, own]: readonly [string, readonly Attempt[]]) =>
      [name, own.filter((one) => nameOf(kind, one).startsWith(wanted ?? ''))] as const;
    const chosen =
      wanted === undefined
        ? spread(groups, Math.min(kind.isCounting ? ofCounting[choose] : count, most), drawn)
        : spread(new Map([...groups].map(named)), most, drawn);
    console.log(`${planeName(kind)}: ${chosen.length} of ${all.length} points`);
    return failures(place, kind, chosen);
  };
}

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
      const again = `SLUICE_FAULT='${nameOf(kind, attempt)}' ./dev test test/faults/faults-${kind.mode}.test.ts`;
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
  const isLong = ran.recoverySeconds > recoverySecondsMax;
  if (isLong && ran.recoverySeconds > (recoverySecondsMax * startSeconds()) / usualStartSeconds)
    wrong.push(`I5: the next process took ${ran.recoverySeconds} s`);
  if (ran.recoveryExitCode !== 0)
    wrong.push(`I5: the next process exited with ${ran.recoveryExitCode}: ${ran.recoveryOutput}`);
  if (/^ +at .+:\d+:\d+\)?$/m.test(ran.output)) wrong.push(`it crashed: ${ran.output}`);
  return wrong.length === 0 ? [] : [...wrong, `it exited with ${ran.exitCode}: ${ran.output}`];
}
