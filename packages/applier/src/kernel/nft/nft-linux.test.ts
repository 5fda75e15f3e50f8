import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { runChildren } from '../run.ts';
import { LinuxNft } from './nft-linux.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(`${tmpdir()}/sluiced-nft-`);
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

/** A tool that does what a shell script says. */
function nftOf(script: string): LinuxNft {
  const file = `${directory}/nft`;
  writeFileSync(file, `#!/bin/sh\ncat > /dev/null\n${script}\n`);
  chmodSync(file, 0o755);
  return new LinuxNft(file, runChildren());
}

const newer = /a newer nft writes in this network namespace; install an nft of at least that version/;

test('an nft that crashes cannot write, and every use of it says why', async () => {
  const nft = nftOf('kill -SEGV $$');
  expect(await nft.lack()).toMatchObject({
    why: expect.stringMatching(newer),
    hint: expect.stringContaining('Install'),
  });
  await expect(nft.load('')).rejects.toThrow(newer);
  await expect(nft.members('trial4')).rejects.toThrow(newer);
  await expect(nft.observe()).rejects.toThrow(newer);
});

test('an nft that the kernel refuses cannot write', async () => {
  const nft = nftOf('echo "Error: Operation not supported" >&2; exit 1');
  expect(await nft.lack()).toMatchObject({ why: expect.stringContaining('Operation not supported') });
});

test('a missing table is no error', async () => {
  const nft = nftOf('echo "Error: No such file or directory" >&2; exit 1');
  expect([await nft.observe(), await nft.members('trial4')]).toEqual([undefined, undefined]);
});

test('members of a set are read beside the comments of another program', async () => {
  const elements = '10.0.0.1 comment "a, b } : timeout c", 0.0.0.0/1 timeout 30s expires 20s';
  const nft = nftOf(`cat <<'END'\n\tset trial4 {\n\t\telements = { ${elements} }\n\t}\nEND`);
  expect(await nft.members('trial4')).toEqual([
    { key: '10.0.0.1', isTimed: false },
    { key: '0.0.0.0/1', isTimed: true },
  ]);
});
