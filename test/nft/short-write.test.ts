// @module-tag test
import { fileURLToPath } from 'node:url';
import { execa } from 'execa';
import { beforeEach, expect, test } from 'vitest';
import { needKernel } from '../netns/privileges.ts';

/**
 * A file system that becomes full writes a part and reports no error, and nft takes the beginning of a text for a text: half of a
 * transaction would be loaded and reported as taken.
 */

beforeEach(needKernel);

const inside = fileURLToPath(new URL('short-write-inside.ts', import.meta.url));

test('loads nothing of a text that the runtime directory has no room for, and all of it when there is room', async () => {
  const setUp = 'mount -t tmpfs -o size=64k tmpfs /run && RUNTIME_DIRECTORY=/run exec "$@"';
  const command = ['--net', '--mount', 'sh', '-c', setUp, 'sh', process.execPath, inside];
  const { stdout } = await execa('unshare', command, { timeout: 60_000 });
  expect(JSON.parse(stdout)).toEqual([
    ['taken', 9],
    ['lost', 9],
    ['taken', 191],
  ]);
});
