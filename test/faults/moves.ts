import { randomOf, seed } from '@sluice/testing';
import type { MovingNode } from './moving-node.ts';
import { type Point, printPoint, readPoint } from './points.ts';

/** Whose rules the kernel got last: those of a kube-proxy that restarted beneath Sluice, or Sluice's. */
export const orders = ['Sluice', 'kube-proxy'] as const;
export type Last = (typeof orders)[number];

/** What comes after a kill, before the move is finished: the same command; a boot; the opposite; the daemon. */
export const continuations = ['again', 'boot', 'opposite', 'run'] as const;

/** A move there and back: where each is killed, and what comes next. */
export interface Cycle {
  readonly next: (typeof continuations)[number];
  /** undefined: not killed */
  readonly there: Point | undefined;
  readonly back: Point | undefined;
}

export const printCycle = ({ next, there, back }: Cycle): string =>
  [next, ...[there, back].map((point) => (point ? printPoint(point) : '-'))].join(' | ');

export function readCycle(text: string): Cycle {
  const [next = '', ...points] = text.split(' | ');
  const [there, back] = points.map((point) => (point === '-' ? undefined : readPoint(point)));
  return { next: continuations.find((one) => one === next) ?? 'again', there, back };
}

/** The rename of the manifest, which needs no record of a run. */
export const rename: Point = {
  at: 'program',
  call: 'rename',
  path: '@/manifests/kube-proxy.yaml',
  nth: 1,
  fault: 'kill',
};

/** Makes cycles out of the points that were recorded, so many of each direction by the seed of the run. */
export function cyclesOf(there: readonly Point[], back: readonly Point[], most: number): readonly Cycle[] {
  const drawn = [draw(there, most), draw(back, most)] as const;
  return Array.from({ length: Math.max(drawn[0].length, drawn[1].length) }, (_, at) => {
    const next = continuations[(at + seed) % continuations.length] ?? 'again';
    return { next, there: drawn[0][at], back: drawn[1][at] };
  });
}

/** @returns so many of them by the seed of the run */
function draw(all: readonly Point[], count: number): readonly Point[] {
  const random = randomOf(seed);
  return all
    .map((point) => ({ point, by: random() }))
    .toSorted((a, b) => a.by - b.by)
    .slice(0, count)
    .map(({ point }) => point);
}

/** @returns what was wrong; the node is as before where nothing was */
export async function tryCycle(node: MovingNode, last: Last, { next, there, back }: Cycle): Promise<readonly string[]> {
  const found: string[] = [];
  const note = (when: string, wrong: readonly string[]): void =>
    void found.push(...wrong.map((one) => `${when}: ${one}`));
  const finish = async (isBack: boolean): Promise<void> => {
    const { exitCode, stdout, stderr } = await node.run(isBack);
    const what = isBack ? 'undo' : 'move';
    if (exitCode !== 0) note(what, [`exit code ${exitCode}: ${stdout}${stderr}`]);
    note(`after the ${what}`, await (isBack ? node.wrongUndone() : node.wrongAdopted()));
  };
  const killed = async (isBack: boolean, point: Point): Promise<void> => {
    await node.run(isBack, point);
    note(`killed ${isBack ? 'back' : 'there'}`, await node.wrong());
    if (next === 'opposite') await finish(!isBack);
    if (next === 'boot') note('after a boot', await node.wrongAfterBoot());
    if (next === 'run') note('beside the daemon', await node.wrongBesideDaemon());
  };
  node.forgetState();
  if (last === 'kube-proxy') await node.putProxyLast();
  if (there) await killed(false, there);
  await finish(false);
  if (back) await killed(true, back);
  await finish(true);
  return found;
}
