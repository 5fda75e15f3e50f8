import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { releaseTarget } from './release-target.ts';
import { Releases } from './releases.ts';
import { nextBlock, oneAfterTheOther, type Serials } from './serials.ts';

const example = join(import.meta.dirname, '../../../../../examples/01-cluster-ip/out');
const files = new Map(
  readdirSync(example, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name))
    .map((path) => [path.slice(example.length + 1), readFileSync(path, 'utf8')] as const),
);

const dir = mkdtempSync(join(tmpdir(), 'sluice-releases-'));
afterEach(() => rmSync(dir, { recursive: true, force: true }));

/** As of a Lease. */
function inBlocks(): Serials {
  let noted: number | undefined;
  return async (newest) => {
    const block = nextBlock(noted, newest);
    noted = block.last;
    return block;
  };
}

test.each([
  ['one after the other', oneAfterTheOther, ['1', '2']],
  ['in blocks', inBlocks(), ['1', '2']],
])('serials go on where the directory of releases is lost: %s', async (_title, serials, expected) => {
  const said: string[] = [];
  const target = releaseTarget(`oci:${join(dir, 'releases')}:production`, undefined);
  const releases = new Releases({ target, serials, say: (what) => void said.push(what) });
  releases.add({ files });
  expect(await releases.push(0)).toEqual({ kind: 'pushed' });
  rmSync(join(dir, 'releases'), { recursive: true });
  expect(await releases.push(0)).toEqual({ kind: 'pushed' });
  expect(said.map((line) => /release (\d+) /.exec(line)?.[1])).toEqual(expected);
});
