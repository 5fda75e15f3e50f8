import { closeSync, openSync, statfsSync, unlinkSync, writeSync } from 'node:fs';
import { execa } from 'execa';
import { NftHelper } from '../../packages/applier/src/kernel/nft/nft-helper.ts';

/**
 * Runs in a network namespace, with a runtime directory of few pages: hands texts to a helper when the directory has room for it, when it has room for the first page alone, and when
 * it has room again. Prints what was answered, and what the kernel holds after each.
 */

const pageBytes = 4096;
const directory = process.env['RUNTIME_DIRECTORY'] as string;

/** Fills the directory up to some bytes. @returns ends that */
function leave(bytes: number): () => void {
  const fd = openSync(`${directory}/filling`, 'w');
  const { bavail, bsize } = statfsSync(directory);
  writeSync(fd, Buffer.alloc(bavail * bsize - bytes, 'x'));
  closeSync(fd);
  return () => unlinkSync(`${directory}/filling`);
}

/** Commands of 64 bytes each: each page ends with a command. The first one replaces the chain. */
function commands(count: number): string {
  const lines = [
    'flush chain inet t c',
    ...Array.from({ length: count - 1 }, (_, at) => `add rule inet t c tcp dport ${at + 1} drop`),
  ];
  return lines.map((line) => `${line.padEnd(63)}\n`).join('');
}

const count = async (): Promise<number> =>
  (await execa('nft', ['list', 'chain', 'inet', 't', 'c'])).stdout.match(/drop/g)?.length ?? 0;

await execa('nft', ['add table inet t; add chain inet t c']);
const helper = new NftHelper({ nft: '/usr/sbin/nft', setpriv: undefined, lockFd: undefined }, () => undefined);
const answers: unknown[] = [];
const ask = async (text: string): Promise<void> => {
  answers.push([(await helper.write(text)).kind, await count()]);
};
await ask(commands(10));
const free = leave(0);
await ask(commands((3 * pageBytes) / 64));
free();
await ask(commands((3 * pageBytes) / 64));
await helper.end();
process.stdout.write(JSON.stringify(answers));
