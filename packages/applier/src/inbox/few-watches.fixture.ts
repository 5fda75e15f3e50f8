import { mkdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { watchBundle } from './watch.ts';

/**
 * Runs in a user namespace of its own, for the limits of its own, with a directory and the limit to set. Says what a watcher tells, first
 * where nothing can be watched from the start, then where that comes to be so when a link is swapped.
 */
const [directory = '', limit = ''] = process.argv.slice(2);
const allow = (count: number): void => writeFileSync(`/proc/sys/user/${limit}`, String(count));
const say = (word: string): void => void process.stdout.write(`${word}\n`);

let last = '';
const sayOnce = (word: string): void => {
  if (word !== last) say(word);
  last = word;
};
const failed = (why: string | undefined): void =>
  sayOnce(why === undefined ? 'watched' : `unwatched ${/E[A-Z]+/.exec(why)?.[0]}`);

for (const name of ['one', 'two']) mkdirSync(`${directory}/${name}`);
symlinkSync('one', `${directory}/rendered`);
allow(0);
const watcher = await watchBundle(`${directory}/rendered`, { onEvent: () => say('event'), failed });
allow(1000);
await watcher.refresh();
await sleep(300);
writeFileSync(`${directory}/one/.sluice-complete`, 'x');
await sleep(300);
allow(0);
symlinkSync('two', `${directory}/next`);
renameSync(`${directory}/next`, `${directory}/rendered`);
await sleep(300);
allow(1000);
await watcher.refresh();
await sleep(300);
await watcher.close();
say('end');
