import type { CauseCode } from '@sluice/netfilter';
import type { Fault } from './faults.ts';
import type { Healthy } from './healthy.ts';
import type { ServiceOptions } from './manifests.ts';
import { DoctorNode } from './node.ts';
import { addOddities } from './oddities.ts';
import { draw, type Drawn, type Plane } from './plan.ts';

/** What the doctor said about a fault. */
export interface RowResult {
  readonly name: string;
  readonly expected: readonly CauseCode[];
  readonly first: CauseCode | undefined;
  /** What was wrong; empty when the doctor was right. */
  readonly failure: string;
}

/** Makes a node with one fault, or several, and asks the doctor. Of several the first one may be any of them, and all must be named. */
export async function runFault(seed: number, row: readonly Fault[]): Promise<RowResult> {
  const name = row.map((one) => one.name).join(', and ');
  const drawn = drawFor(seed, name, row);
  const options = Object.assign({}, ...row.map(({ service }) => service ?? {})) as ServiceOptions;
  await using node = await DoctorNode.make(drawn, options);
  if (!row.some(({ isUnapplied }) => isUnapplied)) await node.apply();
  const odd = await addOddities(node);
  for (const one of row) await one.make(node);
  const [main] = row;
  const asked = main?.asks ? main.asks(node) : node.service;
  const { diagnosis, exitCode, output } = await node.doctor(
    ...(asked === undefined ? [] : [asked]),
    ...row.flatMap(({ args = [] }) => args),
  );
  const expected = row.map(({ cause }) => cause);
  const found = [diagnosis.cause, ...diagnosis.others].flatMap((one) => one?.code ?? []);
  const [first] = found;
  const isRight =
    first !== undefined && expected.includes(first) && expected.every((code) => found.includes(code)) && exitCode === 1;
  return {
    name,
    expected,
    first,
    failure: isRight
      ? ''
      : `${name} (${describe(drawn, odd)}): expected ${expected.join(' and ')}, got ${first ?? 'no cause'}\n${output}`,
  };
}

/** Draws until the family is one that the faults can have. */
function drawFor(seed: number, name: string, row: readonly Fault[]): Drawn {
  const family = row.find((one) => one.family)?.family;
  const isPossible = (plane: Plane): boolean => row.every(({ only }) => only?.(plane) ?? true);
  for (let attempt = 0; ; attempt++) {
    const drawn = draw(seed + attempt * 7919, name, isPossible);
    if (family === undefined || drawn.family === family) return drawn;
  }
}

const describe = ({ plane: { mode, backend, layout }, family }: Drawn, odd: readonly string[]): string =>
  `mode ${mode}, ${backend}, ${layout}, ${family}; ${odd.join('; ')}`;

/** Makes a node on which everything works, and asks the doctor about its Service and about all. */
export async function runHealthy(seed: number, healthy: Healthy): Promise<RowResult> {
  const drawn = draw(seed, healthy.name, healthy.only);
  await using node = await DoctorNode.make(drawn, {});
  await node.apply();
  const odd = await addOddities(node);
  await healthy.make(node);
  const works = [
    await node.connect('c1'),
    await node.connect('node-a'),
    await node.connect('outside', node.address('node-a'), drawn.nodePort),
  ];
  if (works.some(({ kind }) => kind !== 'answer'))
    throw new Error(`The node is not healthy: ${JSON.stringify(works)}, ${odd.join(', ')}`);
  const results = [await node.doctor(node.service), await node.doctor()];
  const first = results.map(({ diagnosis }) => diagnosis.cause?.code).find((code) => code !== undefined);
  const isRight = results.every(({ exitCode, diagnosis }) => exitCode === 0 && diagnosis.unread.length === 0);
  const failure = isRight
    ? ''
    : `${healthy.name} (${describe(drawn, odd)}): got ${first ?? 'unread parts'}\n${results.map(({ output }) => output).join('')}`;
  return { name: healthy.name, expected: [], first, failure };
}
