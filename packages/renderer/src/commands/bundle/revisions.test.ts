import { afterAll, beforeAll, expect, test } from 'vitest';
import { SampleRepository } from './repository.fixture.ts';
import { type Ran, sluice } from '../../../../sluice/src/in-process.fixture.ts';

/** Each verb that reads a bundle reads one of a Git revision, too, and says the same of it. */

const repository = new SampleRepository();
const before = process.cwd();
beforeAll(() => {
  repository.endpoints(5, 6);
  repository.commit();
  repository.git('mv', 'rendered', 'work-tree');
  process.chdir(repository.root);
});
afterAll(() => {
  process.chdir(before);
  repository.destroy();
});

const packet = ['--node', 'node-1', '--from', 'node', '--to', 'shop/web:80'];

test.each<readonly string[]>([
  ['ls', 'DIR'],
  ['show', 'DIR', '--node', 'node-1'],
  ['show', 'DIR', '--node', 'node-1', '--service', 'shop/wib'],
  ['explain', 'shop/web', '--dir', 'DIR'],
  ['explain', 'shop/wib', '--dir', 'DIR'],
  ['cost', 'DIR'],
  ['trace', 'DIR', ...packet],
  ['diff', 'DIR', 'DIR'],
  ['report', 'DIR', 'DIR', '--summary'],
  ['policy', 'DIR'],
  ['prove', 'DIR'],
  ['what-if', 'DIR'],
])('%s %s', async (...words) => {
  const ran = async (dir: string): Promise<Ran> => {
    const { stdout, stderr, status } = await sluice(...words.map((word) => (word === 'DIR' ? dir : word)));
    // Hints and places name the bundle as the user did.
    const named = (text: string): string => text.replaceAll(/HEAD:rendered|work-tree|rendered(?=\/)/g, 'DIR');
    return { status, stdout: named(stdout), stderr: named(stderr) };
  };
  const revision = await ran('HEAD:rendered');
  expect(revision).toEqual(await ran('work-tree'));
  expect(`${revision.stdout}${revision.stderr}`).toMatch(words.includes('shop/wib') ? /there for shop\/web/ : /./);
});
