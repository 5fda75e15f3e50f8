import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { NftOwner } from './nft-owner.ts';

const folder = mkdtempSync(join(tmpdir(), 'sluice-owner-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let owners = 0;

/** An owner whose nft takes all but flags that there are not, and the processes of its helpers. @param at what happens when nft is asked for the flags, and a helper begins */
function ownerWith(at: { readonly flags?: () => void; readonly helper?: () => void; readonly takesAll?: boolean }): {
  readonly owner: NftOwner;
  readonly helpers: readonly number[];
} {
  const nft = join(folder, `nft-${++owners}`);
  const complain = 'printf "Error: syntax error\\n%s\\n   ^\\n" "$question" >&2';
  writeFileSync(nft, `#!/bin/sh\nwhile read -r include && read -r question; do ${complain}; done\n`);
  chmodSync(nft, 0o755);
  const helpers: number[] = [];
  const owner = new NftOwner({
    nft,
    setpriv: undefined,
    lockFd: undefined,
    run: async ({ input }) => {
      at.flags?.();
      const isTaken = at.takesAll === true || (typeof input === 'string' && input.includes('flags owner,persist;'));
      return { exitCode: isTaken ? 0 : 1, stdout: '', stderr: '', why: '' };
    },
    started: (pid) => {
      helpers.push(pid);
      at.helper?.();
      return undefined;
    },
  });
  return { owner, helpers };
}

const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

test('keeps a helper, which owns the table, until it is closed', async () => {
  const { owner, helpers } = ownerWith({});
  await owner.own();
  expect(owner.protection).toEqual({ kind: 'owned' });
  expect(helpers.map(isAlive)).toEqual([true]);
  owner.close();
  await expect.poll(() => helpers.map(isAlive)).toEqual([false]);
});

test('believes no nft that takes everything, and asks it again', async () => {
  const { owner, helpers } = ownerWith({ takesAll: true });
  await owner.own();
  expect([owner.protection.kind, helpers]).toEqual(['open', []]);
  owner.close();
});

test('closed while nft is asked what it knows, it starts no helper', async () => {
  const { owner, helpers } = ownerWith({ flags: () => owner.close() });
  await owner.own();
  expect(helpers).toEqual([]);
});

test('closed while a helper begins, it ends it', async () => {
  const { owner, helpers } = ownerWith({ helper: () => owner.close() });
  await owner.own();
  expect(helpers.map(isAlive)).toEqual([false]);
});
