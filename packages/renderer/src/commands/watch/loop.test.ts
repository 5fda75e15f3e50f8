import { existsSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { git, limits, log, loop, pause, pushed, repository, startLoop, until, withRepository } from './loop.fixture.ts';

const file = 'profiles/default/services/shop/a.iptables';
const holding = (text: string): ReadonlyMap<string, string> => new Map([[file, `${text}\n`]]);
const initial = 'sluice: initial render of 1 Service for 0 nodes';
const change = 'watch: Service shop/a';

withRepository();

async function start(isPushing = true): Promise<void> {
  await startLoop(repository.rendered, isPushing, holding('1'));
}
const inHead = (): string => git(repository.work, 'show', `HEAD:rendered/${file}`);
const inOrigin = (): string => git(repository.origin, 'show', `main:rendered/${file}`);

/** Makes a hook of the remote that writes `pushing`, and waits until `go` exists. */
function slowRemote(exitCode: 0 | 1): { readonly isAsked: () => boolean; readonly go: () => void } {
  const [asked, go] = [join(repository.dir, 'pushing'), join(repository.dir, 'go')];
  const script = `#!/bin/sh\ntouch ${asked}\nwhile [ ! -e ${go} ]; do sleep 0.02; done\nexit ${exitCode}\n`;
  writeFileSync(join(repository.origin, 'hooks', 'pre-receive'), script, { mode: 0o755 });
  return { isAsked: () => existsSync(asked), go: () => writeFileSync(go, '') };
}

test('a push that takes long delays no publication; what is written meanwhile is the next commit', async () => {
  const remote = slowRemote(0);
  await start();
  await until(remote.isAsked);
  await loop.publish(holding('2'));
  await loop.publish(holding('3'));
  await pause(5 * limits.settleMs);
  expect([log(), inHead()]).toEqual([[initial, 'start'], '1']);
  remote.go();
  await until(() => pushed().length === 3);
  expect([pushed(), inOrigin(), loop.alarms]).toEqual([[change, initial, 'start'], '3', []]);
});

test('a push that fails stops no publication; what is written meanwhile is committed in the next round', async () => {
  const remote = slowRemote(1);
  await start();
  await until(remote.isAsked);
  await loop.publish(holding('2'));
  remote.go();
  await until(() => loop.alarms.length > 0);
  await loop.publish(holding('3'));
  await until(() => inHead() === '3');
  expect(pushed()).toEqual(['start']);
  rmSync(join(repository.origin, 'hooks', 'pre-receive'));
  await until(() => loop.isClear && inOrigin() === '3');
  expect(new Set(log())).toEqual(new Set([change, initial, 'start']));
});

test('publications do not shorten the delay of a retry', async () => {
  renameSync(repository.origin, `${repository.origin}.away`);
  await start();
  await until(() => loop.alarms.length >= 3);
  const before = loop.alarms.length;
  const since = performance.now();
  const busy = setInterval(() => void loop.publish(holding(`${Date.now()}`)), limits.settleMs / 4);
  await pause(10 * limits.retryMaxMs);
  clearInterval(busy);
  expect(loop.alarms.length - before).toBeLessThanOrEqual(Math.ceil((performance.now() - since) / limits.retryMaxMs));
});

test('commits and pushes a publication that waits for its commit before it ends', async () => {
  await startLoop(repository.rendered, true, holding('1'), 60_000);
  await loop.finish();
  expect(pushed()).toEqual([initial, 'start']);
});

test('finishes a push before it ends, and the commit of what was written meanwhile', async () => {
  const remote = slowRemote(0);
  await start();
  await until(remote.isAsked);
  await loop.publish(holding('2'));
  const finished = loop.finish();
  remote.go();
  await finished;
  expect([pushed(), inOrigin()]).toEqual([[change, initial, 'start'], '2']);
});

test('ends after a failure without another attempt, and leaves the commit to the next process', async () => {
  renameSync(repository.origin, `${repository.origin}.away`);
  await start();
  await until(() => loop.alarms.length > 0);
  await loop.finish();
  const count = loop.alarms.length;
  await pause(3 * limits.retryMaxMs);
  expect([loop.alarms.length, loop.isClear]).toEqual([count, true]);
});

test('writes nothing and commits nothing after it lost the right to write, until it has it again', async () => {
  const remote = slowRemote(0);
  await start();
  await until(remote.isAsked);
  loop.loop.follow();
  const late = loop.publish(holding('2'));
  remote.go();
  await pause(10 * limits.settleMs);
  expect([log(), inHead()]).toEqual([[initial, 'start'], '1']);
  loop.loop.lead(true);
  await late;
  await until(() => inOrigin() === '2');
});

test('continues from the remote branch when another process wrote before', async () => {
  await start();
  await until(() => pushed().length === 2);
  loop.loop.follow();
  const other = join(repository.dir, 'other');
  git(repository.dir, 'clone', '--quiet', repository.origin, other);
  writeFileSync(join(other, 'README'), 'of another\n');
  git(other, 'add', 'README');
  git(other, '-c', 'user.name=o', '-c', 'user.email=o@example.com', 'commit', '--quiet', '-m', 'of another');
  git(other, 'push', '--quiet');
  loop.loop.lead(true);
  await loop.publish(holding('2'));
  await until(() => pushed().length === 4);
  expect([pushed(), loop.alarms]).toEqual([[change, 'of another', initial, 'start'], []]);
  // Without a rejected push.
  expect(git(repository.work, 'reflog')).not.toContain('rebase');
});

test('gaining, losing and gaining the right to write at once leaves one writer', async () => {
  await start();
  await until(() => pushed().length === 2);
  loop.loop.follow();
  loop.loop.lead(true);
  loop.loop.follow();
  loop.loop.lead(true);
  await loop.publish(holding('2'));
  await until(() => inOrigin() === '2');
  expect(loop.alarms).toEqual([]);
});
