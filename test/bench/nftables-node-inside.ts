// All of sluiced in mode nftables, at a number of Services: the first load, endpoint updates, releases that are confirmed and rolled back.
// Runs inside network and mount namespaces of its own, started by nftables.ts. Prints one JSON line.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openSession } from '../../packages/applier/src/commands/session/session.ts';
import { defaultConfig } from '../../packages/applier/src/config.ts';
import { Inbox } from '../../packages/applier/src/inbox/inbox.ts';
import { mustBeInNamespace } from './in-namespace.ts';
import { median } from './measure.ts';
import { ChangingBundle } from './nftables-bundle.ts';
import { Commits } from './nftables-commits.ts';

mustBeInNamespace();
const services = Number(process.argv[2] ?? 1_000);
const updates = 21;
const releases = 7;
const perRelease = 100;
const scratch = mkdtempSync(join(tmpdir(), 'sluice-nftables-'));
process.on('exit', () => rmSync(scratch, { recursive: true, force: true }));
const bundle = new ChangingBundle(join(scratch, 'rendered'), services);

/** When each phase, and each step, was entered last. */
const at = new Map<string, number>();
const probation = { ...defaultConfig('node-0000').probation, seconds: 0 };
const config = { ...defaultConfig('node-0000'), state: join(scratch, 'state'), probation };
const session = await openSession(config, 'change', (event, fields) => {
  at.set(event === 'phase' ? String(fields['phase']) : event, performance.now());
});
const inbox = new Inbox(bundle.directory, Date.now);

/** `nft monitor` prints a large stage a tenth of a second late: a commit or a rollback right after it would be as late. */
function waitForMonitor(): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500);
}

/** @returns when the directory was complete */
async function put(ends: 'confirmed' | 'rolled-back' = 'confirmed', isRelease = false): Promise<number> {
  const started = performance.now();
  const arrival = await inbox.look('changed');
  if (arrival.kind !== 'bundle') throw new Error(JSON.stringify(arrival));
  const never = new Promise<void>(() => undefined);
  const isEnding = (): boolean => {
    if (isRelease) waitForMonitor();
    return ends === 'rolled-back';
  };
  const offers = { arrival: () => never, look: () => Promise.resolve(undefined), isEnding };
  const outcome = await session.reconciler.put(arrival.tree.files, true, offers);
  if (outcome.kind !== ends) throw new Error(JSON.stringify(outcome));
  session.idle();
  return started;
}

const entered = (phase: string): number => at.get(phase) ?? Number.NaN;

/** Of the one port that a Service has. */
const lastEndpoint = / : \S+ \. (\d+) \}\n(?!.* tcp4 )/s;

const coldMs = -(await put()) + entered('verify');
const commits = await Commits.watch();
const endpoint = { kernel: [] as number[], known: [] as number[] };
for (let round = 0; round < updates; round++) {
  const path = bundle.paths[(round * 37) % bundle.paths.length] as string;
  bundle.change([path], (text) => text.replace(lastEndpoint, ` : 10.250.0.${round + 1} . $1 }\n`));
  const started = await put();
  const [first = Number.NaN] = await commits.since(started);
  endpoint.kernel.push(first - started);
  endpoint.known.push(entered('verify') - started);
}
const release = { stage: [] as number[], switch: [] as number[], back: [] as number[], commit: [] as number[] };
for (let round = 0; round < 2 * releases; round++) {
  const ends = round % 2 === 0 ? 'rolled-back' : 'confirmed';
  const some = bundle.paths.slice(round * perRelease, (round + 1) * perRelease);
  const before = bundle.read(some);
  bundle.change(some, (text) => text.replaceAll('goto n${count}', 'goto s${count}t600'));
  await put(ends, true);
  if (ends === 'rolled-back') {
    const [off = Number.NaN] = await commits.since(entered('roll back'));
    release.back.push(off - entered('roll back'));
    bundle.write(before);
  } else {
    const [staged = Number.NaN, switched = Number.NaN] = await commits.since(entered('stage'));
    release.stage.push(staged - entered('stage'));
    release.switch.push(switched - staged);
    // The switch is renewed before the commit record.
    const [, committed = Number.NaN] = await commits.since(entered('finish'));
    release.commit.push(committed - entered('finish'));
  }
}
commits.close();
session.close();
const { stage, switch: switched, back, commit } = release;
const times = {
  coldMs,
  endpointMs: median(endpoint.kernel),
  endpointKnownMs: median(endpoint.known),
  stageMs: median(stage),
  switchMs: median(switched),
  rollBackMs: median(back),
  commitMs: median(commit),
};
process.stdout.write(`${JSON.stringify(times)}\n`);
