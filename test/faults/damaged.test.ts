// @module-tag test
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { atTier, randomOf, replay, seed } from '@sluice/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { oneInTurn } from '../one-in-turn.ts';
import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { damages } from '../../packages/applier/src/testing/damages.fixture.ts';
import { needBackend, needKernel } from '../netns/privileges.ts';
import { type DataPlane, modesOnNft, plainPlanes, SluicedNode, until } from '../netns/sluiced-node.ts';

/**
 * One file of the state directory is damaged, and the node boots, or gets its next release: it ends with Services, and takes that release.
 * `packages/applier/src/apply/recovery/damaged-files.test.ts` does the same on the fake.
 */

beforeEach(needKernel);

const nexts = ['a boot', 'the next release'] as const;

interface Cell {
  readonly file: string;
  readonly damage: string;
  readonly next: (typeof nexts)[number];
}

const printCell = ({ file, damage, next }: Cell): string => `${file}, ${damage}, before ${next}`;

/** Cells whose text this matches run: `SLUICE_DAMAGED='^journal, half'`. */
const wanted = process.env['SLUICE_DAMAGED'];

/** Cells of a plane that run; all of them each night. */
const count = atTier({ quick: 2, test: 4, all: Infinity });
/** Nodes of a plane that run them together. */
const nodes = atTier({ quick: 1, all: 3 });

const endpoints = (...numbers: readonly number[]): string =>
  numbers
    .map((n) => `10.244.0.${n + 1}:8080`)
    .toSorted()
    .join();

const publish = (node: SluicedNode, { mode }: DataPlane, web: readonly number[], added?: number): void => {
  const services = { 'shop/web': web, 'shop/cart': [3], 'shop/new': added === undefined ? undefined : [added] };
  // Files of Services that are gone would stay.
  rmSync(`${node.directory}/rendered`, { recursive: true, force: true });
  writeBundle(`${node.directory}/rendered`, sampleBundle({ services, mode }));
};
const newest = [5, 6, 7];

/** A state directory after three releases and endpoint updates; the daemon has looked for drift, and written copies. */
async function history(plane: DataPlane): Promise<string> {
  const node = await SluicedNode.make();
  try {
    node.writeConfig(plane.backend);
    publish(node, plane, [1, 2]);
    expect(await node.apply()).toMatchObject({ exitCode: 0, stderr: '' });
    publish(node, plane, [4], 9);
    expect(await node.apply()).toMatchObject({ exitCode: 0, stderr: '' });
    publish(node, plane, [5]);
    expect(await node.apply()).toMatchObject({ exitCode: 0, stderr: '' });
    publish(node, plane, [5, 6]);
    const daemon = node.start();
    for (const web of [[5, 6], newest]) {
      publish(node, plane, web);
      await until(
        'the endpoints are in',
        async () => (await node.endpoints(plane)).join() === endpoints(3, ...web),
        60_000,
      );
    }
    await until('there are copies', async () => copiesIn(`${node.directory}/state`) > 2, 60_000);
    // Packets meet the newest rules before the journal says that they are confirmed.
    await until('no change is open', async () => node.journal()?.open === null, 60_000);
    await node.kill(daemon);
    const directory = mkdtempSync(`${existsSync('/dev/shm') ? '/dev/shm' : tmpdir()}/sluiced-damaged-`);
    cpSync(`${node.directory}/state`, directory, { recursive: true });
    return directory;
  } finally {
    await node.remove();
  }
}

const copiesIn = (state: string): number => (existsSync(`${state}/copies`) ? readdirSync(`${state}/copies`).length : 0);

const filesIn = (directory: string): readonly string[] =>
  readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .filter((name) => statSync(`${directory}/${name}`).isFile())
    .toSorted();

/** @returns what is wrong with the node after it */
async function wrongAfter(
  node: SluicedNode,
  plane: DataPlane,
  { template, cell, random }: { readonly template: string; readonly cell: Cell; readonly random: () => number },
): Promise<readonly string[]> {
  const wrong: string[] = [];
  const must = (isRight: boolean, what: string): void => {
    if (!isRight) wrong.push(`${printCell(cell)}: ${what}`);
  };
  const state = `${node.directory}/state`;
  rmSync(state, { recursive: true, force: true });
  cpSync(template, state, { recursive: true });
  await node.forgetRules(plane.backend);
  const damage = (): void => {
    const bytes = damages[cell.damage]?.(readFileSync(`${state}/${cell.file}`), random);
    if (bytes) writeFileSync(`${state}/${cell.file}`, bytes);
    else rmSync(`${state}/${cell.file}`);
  };
  if (cell.next === 'a boot') damage();
  const boot = await node.sluiced('boot');
  const booted = await node.endpoints(plane);
  if (cell.next === 'a boot') {
    must([0, 4].includes(boot.exitCode ?? -1), `boot ended with ${boot.exitCode}: ${boot.stdout} ${boot.stderr}`);
    for (const one of [3, 5]) must(booted.includes(endpoints(one)), `serves ${booted.join()} after a boot`);
  } else {
    // A boot collects files of programs that nothing names any more.
    if (!existsSync(`${state}/${cell.file}`)) return wrong;
    must(boot.exitCode === 0 && booted.join() === endpoints(3, ...newest), `before the damage: ${boot.stderr}`);
    damage();
  }
  publish(node, plane, [8], 9);
  const next = await node.apply();
  const there = (await node.endpoints(plane)).join();
  must(next.exitCode === 0, `apply ended with ${next.exitCode}: ${next.stdout} ${next.stderr}`);
  must(there === endpoints(3, 8, 9), `serves ${there} after the next release`);
  must(node.journal()?.held === null && node.journal()?.open === null, 'halted, or a release is open');
  return wrong;
}

/** In an order that the seed gives. */
function cellsOf(files: readonly string[], random: () => number): readonly Cell[] {
  return files
    .flatMap((file) =>
      Object.keys(damages).flatMap((damage) => nexts.map((next) => ({ file, damage, next, at: random() }))),
    )
    .filter((cell) => wanted === undefined || new RegExp(wanted).test(printCell(cell)))
    .toSorted((a, b) => a.at - b.at)
    .slice(0, wanted === undefined ? count : Infinity);
}

describe('a node with a damaged state', { concurrent: true, timeout: 2_400_000 }, () => {
  test.for(atTier({ quick: oneInTurn(modesOnNft, 'damaged'), all: plainPlanes }))(
    'ends with Services, and takes the next release, on $backend, mode $mode',
    async (plane, context) => {
      needBackend(context, plane.backend);
      const random = randomOf(seed);
      const template = await history(plane);
      try {
        const files = filesIn(template);
        expect(files.length).toBeGreaterThan(10);
        const cells = [...cellsOf(files, random)];
        const wrong: string[] = [];
        const work = async (): Promise<void> => {
          const node = await SluicedNode.make();
          try {
            node.writeConfig(plane.backend);
            for (let cell = cells.pop(); cell; cell = cells.pop())
              wrong.push(...(await wrongAfter(node, plane, { template, cell, random })));
          } finally {
            await node.remove();
          }
        };
        await Promise.all(Array.from({ length: nodes }, work));
        expect(wrong, `again: ${replay('test/faults/damaged.test.ts')}`).toEqual([]);
      } finally {
        rmSync(template, { recursive: true, force: true });
      }
    },
  );
});
