import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { isInGuest } from '../in-guest.ts';
import { SluicedNode, until } from '../netns/sluiced-node.ts';
import { confirmFirst, publish, publishRelease, reached } from '../netns/sluiced-probation.ts';
import type { Cell, ToolTrouble, Trouble } from './cells.ts';
import { TroubledTools } from './troubled-tools.ts';

/** Seconds from the end of the trouble to a node as if nothing had been: a hung tool is killed after `commandTimeoutMs`. */
const healSecondsMax: Readonly<Record<Trouble, number>> = {
  missing: 30,
  hang: 90,
  crash: 30,
  garbage: 30,
  silent: 30,
  slow: 30,
  locked: 30,
  full: 30,
  flushed: 30,
};

const troublesOf = ({ group, trouble, also }: Cell): readonly ToolTrouble[] => [
  { group, trouble },
  ...(also ? [also] : []),
];

/** The most that a cell allows. */
export const healSecondsOf = (cell: Cell): number =>
  Math.max(...troublesOf(cell).map(({ trouble }) => healSecondsMax[trouble])) * slowness;

/** A tool that is away, waits for a lock or lacks room writes nothing down. */
const isCounted = ({ trouble }: ToolTrouble): boolean => !['missing', 'locked', 'full'].includes(trouble);

/** A kernel in user mode takes so many times as long for what it does. */
export const slowness = isInGuest ? 3 : 1;

/** A cell whose tool is not called in this time, as conntrack where no flow changes, has no trouble. */
const meetMsMax = 10_000 * slowness;

/** So long may `/healthz` say 200 while clients of a Service reach nothing. */
export const unknownSecondsMax = 15 * slowness;

/** What became of a cell. */
export interface CellResult {
  /** Empty: nothing. */
  readonly wrong: readonly string[];
  /** From the end of the trouble; undefined: never. */
  readonly healSeconds: number | undefined;
  /** Calls that met the trouble; undefined for missing tools, locks and full folders, which nothing counts. */
  readonly calls: number | undefined;
}

const endpointsOf = (numbers: readonly number[]): readonly string[] =>
  numbers.map((n) => `10.244.0.${n + 1}:8080`).toSorted();

/** Endpoints of the first release, and of the one of each phase; those of the bad one have no server. */
const first = [1, 11];
const second = [2, 12];
const bad = [31, 32];

/** Runs a cell on a node of its own. @param troubleSeconds how long the trouble lasts */
export async function runCell(cell: Cell, troubleSeconds: number): Promise<CellResult> {
  const node = await SluicedNode.make();
  try {
    return await runOn(node, cell, troubleSeconds);
  } finally {
    await node.remove();
  }
}

async function runOn(node: SluicedNode, cell: Cell, troubleSeconds: number): Promise<CellResult> {
  const { plane, phase } = cell;
  const tools = new TroubledTools(node.directory, plane);
  const all = troublesOf(cell);
  await confirmFirst(node, plane);
  node.writeConfig(
    plane.backend,
    'probation: {seconds: 3}\nprobes: [{name: web, http: "http://10.96.0.11/", attempts: 2}]\n',
  );
  let daemon = node.start(tools.mount);
  const isHealthy = async (): Promise<boolean> => (await health(node)).startsWith('200');
  await until('the daemon is healthy', isHealthy, 60_000 * slowness);
  const want = { bad: endpointsOf(bad), first: endpointsOf(first), second: endpointsOf(second) };
  const update = [1, 2];
  const goal =
    { idle: first, flush: first, boot: first, rollback: first, endpoints: update }[phase as string] ?? second;
  const known = new Set([...want.first, ...endpointsOf(goal), ...(phase === 'rollback' ? want.bad : [])]);
  const isFlushed = all.some(({ trouble }) => trouble === 'flushed');
  const mayBeAway = isFlushed || ['flush', 'boot', 'rollback'].includes(phase);
  const wrong = new Set<string>();
  const isBad = phase === 'rollback';
  await using watcher = watch(node, cell, { known, mayBeAway, isBad }, wrong);
  const from = Number(/^call (\d+)$/.exec(phase)?.[1] ?? 1);
  const begin = (): void => {
    for (const one of all) tools.begin(daemon.pid!, one, from);
  };
  using supervisor = new DisposableStack();
  switch (phase) {
    case 'idle':
      begin();
      break;
    case 'flush':
      begin();
      await flush(node, cell);
      break;
    case 'endpoints':
      begin();
      publish(node, plane, update);
      break;
    case 'boot':
      await node.kill(daemon);
      await flush(node, cell);
      // The folder of locks is that of the new process.
      daemon = node.start(tools.mount);
      begin();
      supervisor.defer(supervise(daemon, () => node.start(tools.mount)));
      break;
    case 'probation':
      publishRelease(node, plane, 2);
      await until('clients reach the release', async () => (await reached(node)) === '2');
      begin();
      break;
    case 'rollback':
      publish(node, plane, bad);
      await until('the release is open', async () => node.journal()?.open != null);
      begin();
      break;
    case 'arrival':
    case 'call 2':
    case 'call 4':
    case 'call 7':
      begin();
      publishRelease(node, plane, 2);
  }
  // A release is not looked at at once on a busy machine: a trouble that ends before a call meets it shows nothing.
  if (all.some(isCounted))
    await until('a call meets it', async () => tools.met !== '', meetMsMax).catch(() => undefined);
  await sleep(troubleSeconds * 1000);
  tools.end(daemon.pid!);
  const endMs = performance.now();
  const isHealed = async (): Promise<boolean> => {
    const record = node.journal();
    const there = (await node.endpoints(plane)).join();
    if (record?.open !== null || there !== endpointsOf(goal).join()) return false;
    const isJudged = !isBad || Object.keys(record.quarantined).length > 0;
    return isJudged && (await isHealthy()) && answersOf(goal).has(await reached(node));
  };
  const healMax = healSecondsOf(cell);
  let healSeconds: number | undefined;
  try {
    await until('it is healed', isHealed, healMax * 1000);
    healSeconds = (performance.now() - endMs) / 1000;
  } catch {
    wrong.add(
      `not healed ${healMax} s after the end: ${JSON.stringify({
        endpoints: await node.endpoints(plane),
        open: node.journal()?.open?.version,
        held: node.journal()?.held,
        healthz: await health(node),
        reached: await reached(node),
      })}`,
    );
  }
  await watcher.stop();
  if (node.journal()?.held != null) wrong.add(`halted: ${node.journal()?.held}`);
  return { wrong: [...wrong], healSeconds, calls: all.every(isCounted) ? tools.met.split('\n').length - 1 : undefined };
}

/** Starts a daemon that ends again, as its unit does (`Restart=always`, `RestartSec=2`). @returns a function that ends this */
function supervise(daemon: ChildProcess, start: () => ChildProcess): () => void {
  const stopped = new AbortController();
  const again = async (one: ChildProcess): Promise<void> => {
    await once(one, 'exit');
    await sleep(2_000);
    if (!stopped.signal.aborted) await again(start());
  };
  void again(daemon);
  return () => stopped.abort();
}

/** Endpoint n answers n % 10. */
const answersOf = (numbers: readonly number[]): ReadonlySet<string> => new Set(numbers.map((n) => String(n % 10)));

/** Such as `200 ok`; empty without an answer. */
async function health(node: SluicedNode): Promise<string> {
  const curl = ['curl', '-s', '-m', String(2 * slowness), '-w', '\n%{http_code}', 'http://127.0.0.1:10276/healthz'];
  const lines = (await node.tool(curl).catch(() => '')).split('\n');
  return lines.length === 0 ? '' : `${lines.at(-1)} ${lines.slice(0, -1).join(' ')}`;
}

/** Another program removes our rules. */
const flush = async (node: SluicedNode, { plane: { backend, mode } }: Cell): Promise<unknown> => {
  if (mode === 'nftables') return node.tool(['nft', 'delete', 'table', 'inet', 'sluice']);
  if (mode === 'ipvs') await node.tool(['ipvsadm', '-C']);
  return node.tool(['iptables-' + backend, '-t', 'nat', '-F']);
};

/** What may be seen meanwhile. */
interface Allowed {
  /** Endpoints of the old rules and of the new ones. */
  readonly known: ReadonlySet<string>;
  /** Whether clients may meet nothing: other rules are flushed, or a release is bad. */
  readonly mayBeAway: boolean;
  readonly isBad: boolean;
}

/** Looks at packets, rules, quarantine and health until it is stopped, or disposed of where a test fails. */
function watch(
  node: SluicedNode,
  { plane }: Cell,
  allowed: Allowed,
  wrong: Set<string>,
): AsyncDisposable & { stop(): Promise<void> } {
  const stopped = new AbortController();
  let awaySinceMs: number | undefined;
  let lost = 0;
  const look = async (): Promise<void> => {
    while (!stopped.signal.aborted) {
      const met = await reached(node);
      const isServed = met === '1' || met === '2';
      // One connection may be late on a busy machine.
      lost = isServed ? 0 : lost + 1;
      if (lost > 1 && !allowed.mayBeAway) wrong.add(`clients met twice: ${met.split('\n')[0]}`);
      const strange = (await node.endpoints(plane)).filter((one) => !allowed.known.has(one));
      if (strange.length > 0) wrong.add(`the kernel holds neither old nor new rules: ${strange.join()}`);
      const record = node.journal();
      if (!allowed.isBad && Object.keys(record?.quarantined ?? {}).length > 0)
        wrong.add(`a good release is quarantined: ${Object.values(record?.quarantined ?? {}).join()}`);
      if (allowed.isBad && (record?.current?.number ?? 1) > 1) wrong.add('a bad release is confirmed');
      const isDishonest = !isServed && (await health(node)).startsWith('200');
      if (!isDishonest) awaySinceMs = undefined;
      else awaySinceMs ??= performance.now();
      if (awaySinceMs !== undefined && performance.now() - awaySinceMs > unknownSecondsMax * 1000)
        wrong.add(
          `healthy while clients reach nothing for ${unknownSecondsMax} s: ${(await node.get())?.slice(0, 1500) ?? ''}`,
        );
      await sleep(200);
    }
  };
  const done = look();
  const stop = (): Promise<void> => {
    stopped.abort();
    return done;
  };
  // Nothing waits for it yet when it fails: that would be an error outside of all tests, which no second try makes good.
  done.catch(() => undefined);
  return { stop, [Symbol.asyncDispose]: () => stop().catch(() => undefined) };
}
