import { lstatSync, realpathSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { type FSWatcher, watch } from 'chokidar';
import { limits } from '../limits.ts';

/** Ends the watching. */
export interface Watcher {
  close(): Promise<void>;
}

/**
 * Calls back soon after something happens at the top of a bundle directory. Never a watch on the tree: 41,000 files would take
 * 430 MB. A writer removes and writes a file at the top, Git writes into .git, a link is swapped: all of that shows here, and the
 * scan finds the rest.
 *
 * chokidar alone says nothing when a link is swapped and its old target stays. So the link, and the directory that it stands in, are
 * watched without following, and the target is watched afresh whenever it is another one.
 */
export async function watchBundle(path: string, onEvent: () => void): Promise<Watcher> {
  const directory = resolve(path);
  let timer: NodeJS.Timeout | undefined;
  let closed = false;
  let target: { readonly key: string; readonly watcher: FSWatcher } | undefined;
  let retargeting = Promise.resolve();
  const poke = (): void => {
    clearTimeout(timer);
    if (!closed) timer = setTimeout(onEvent, limits.eventSettleMs);
  };
  const retarget = async (): Promise<void> => {
    const now = identity(directory);
    if (closed || now?.key === target?.key) return;
    await target?.watcher.close();
    target = undefined;
    if (now !== undefined) {
      const watcher = watch([now.path, `${now.path}/.git`], { ignoreInitial: true, depth: 0 });
      watcher.on('all', poke);
      target = { key: now.key, watcher };
      await ready(watcher);
    }
    poke();
  };
  const outside = watch(dirname(directory), {
    ignoreInitial: true,
    depth: 0,
    followSymlinks: false,
    ignored: (other) => other !== directory && other !== dirname(directory),
  });
  outside.on('all', () => {
    poke();
    retargeting = retargeting.then(retarget);
  });
  await ready(outside);
  await retarget();
  clearTimeout(timer);
  return {
    async close() {
      closed = true;
      clearTimeout(timer);
      await retargeting;
      await Promise.all([outside.close(), target?.watcher.close()]);
    },
  };
}

/** The directory behind the path, told apart by its inode: a directory that was replaced has the same name. */
function identity(path: string): { key: string; path: string } | undefined {
  try {
    const real = realpathSync(path);
    const { dev, ino } = lstatSync(real);
    return { key: `${dev}:${ino}:${real}`, path: real };
  } catch {
    return undefined;
  }
}

function ready(watcher: FSWatcher): Promise<void> {
  const { promise, resolve: done } = Promise.withResolvers<void>();
  watcher.once('ready', () => done());
  return promise;
}
