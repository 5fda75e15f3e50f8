import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

/** Prints when `nft monitor` has seen a transaction: a process of its own, because the one under test may be busy then. */
const program = `
  const nft = require('node:child_process').spawn('/usr/sbin/nft', ['monitor']);
  require('node:readline').createInterface({ input: nft.stdout }).on('line', (line) => {
    if (line.startsWith('# new generation')) process.stdout.write(performance.timeOrigin + performance.now() + '\\n');
  });
  process.stdin.on('end', () => nft.kill()).resume();
`;

/** The times of the kernel's transactions in this network namespace, in milliseconds of `performance.now`. */
export class Commits {
  readonly #child = spawn(process.execPath, ['-e', program], { stdio: ['pipe', 'pipe', 'inherit'] });
  readonly #seen: number[] = [];

  /** It reads the whole table first. */
  static async watch(): Promise<Commits> {
    const commits = new Commits();
    const onLine = (line: string): void => void commits.#seen.push(Number(line) - performance.timeOrigin);
    createInterface({ input: commits.#child.stdout }).on('line', onLine);
    await sleep(8_000);
    return commits;
  }

  /** Those since a time, the first one first. */
  async since(atMs: number): Promise<readonly number[]> {
    await sleep(200);
    return this.#seen.filter((one) => one >= atMs);
  }

  close(): void {
    this.#child.stdin.end();
  }
}
