import { mkdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { watchBundle } from './watch.ts';

/**
 * Runs in its own user namespace, for its own inotify limits, with a directory and the limit to set. Prints what a watcher reports, first
 * where nothing can be watched from the start, then when watching becomes impossible while a link is swapped.
 */
const [directory = '', limit = ''] = process.argv.slice(2);
const allow = (count: number): void => writeFileSync(`/proc/sys/user/${limit}`, String(count));
const words: string[] = [];
const say = (word: string): void => {
  words.push(word);
  process.stdout.write(`${word}\n`);
};
/** Waits until these words were printed since the last call; a busy machine takes its time. */
async function told(...wanted: readonly string[]): Promise<void> {
  for (let tries = 0; !wanted.every((word) => words.some((one) => one.startsWith(word))); tries++) {
    if (tries > 500) return say(`not told: ${wanted.join(' and ')}`);
    await sleep(20);
  }
  words.length = 0;
}

let last = '';
const sayOnce = (word: string): void => {
  if (word !== last) say(word);
  last = word;
};
const failed = (why: string | undefined): void =>
  sayOnce(why === undefined ? 'watched' : `unwatched ${/\bE(?:NOSPC|MFILE)\b/.exec(why)?.[0]}`);

for (const name of ['one', 'two']) mkdirSync(`${directory}/${name}`);
symlinkSync('one', `${directory}/rendered`);
allow(0);
const watcher = await watchBundle(`${directory}/rendered`, { onEvent: () => say('event'), failed });
allow(1000);
await told('unwatched');
await watcher.refresh();
await told('watched');
writeFileSync(`${directory}/one/.sluice-complete`, 'x');
await told('event');
allow(0);
symlinkSync('two', `${directory}/next`);
renameSync(`${directory}/next`, `${directory}/rendered`);
// An existing inotify instance needs no second one.
const isLost = limit === 'max_inotify_watches';
await told('event', ...(isLost ? ['unwatched'] : []));
allow(1000);
await watcher.refresh();
await told(...(isLost ? ['watched', 'event'] : []));
await watcher.close();
say('end');
