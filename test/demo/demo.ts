import { api, openStage, type Stage } from './stage.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { ask, meet, waitForAnswer } from './look.ts';
import { describeKept } from './keep.ts';
import type { DemoNode } from './node.ts';
import { waitFor } from './wait.ts';

/** Time-outs for what sluiced does without a command. */
const applyMs = 30_000;
const rollBackMs = 40_000;
/** Two scans of the bundle directory: enough for a mistake to show. */
const quarantineMs = 2_000;
/** A port on which no pod listens. */
const wrongPort = 9443;

export interface DemoOptions {
  /** Receives the story, a line at a time. */
  readonly say: (line: string) => void;
  /** Skips steps that show nothing new. */
  readonly short: boolean;
  /** The folder of the programs, if not that of the checkout. */
  readonly bin?: string;
  /** Leaves the cluster for a second terminal at the end, until the demo is interrupted. */
  readonly keep?: boolean;
  /** Interrupts the demo, which then cleans up. */
  readonly signal: AbortSignal;
}

/**
 * The main job from end to end: manifests in, rules in two kernels, a change, a change that breaks health, its rollback.
 * @throws when anything does not happen that should, or when it is interrupted; nothing is left behind either way
 */
export async function runDemo(options: DemoOptions): Promise<void> {
  const { say, signal } = options;
  say(
    'Two nodes, three pods with HTTP servers, a client pod and a client outside, each a network namespace of its own …',
  );
  await using stage = await openStage(options.bin);
  await Promise.race([tell(stage, options), interruption(signal)]);
  if (options.keep === true) await kept(stage, options);
  say('The demo is finished, and has left nothing on this machine.');
}

async function tell(stage: Stage, { say, short, signal }: DemoOptions): Promise<void> {
  try {
    await renderFirst(stage, say);
    await startSluiced(stage, say);
    await reachService(stage, say);
    if (!short) await changeManifest(stage, say);
    await breakHealth(stage, say);
    await stopSluiced(stage, say);
  } catch (error) {
    if (signal.aborted) return;
    for (const node of stage.nodes) say(`--- log of sluiced on ${node.host.name}:\n${await node.stop()}`);
    throw error;
  }
}

/** Starts sluiced again, mends the manifest, and waits for the end. */
async function kept(stage: Stage, { say, signal }: DemoOptions): Promise<void> {
  for (const node of stage.nodes) node.start();
  stage.edit('api.yaml', `port: ${wrongPort}\n`, `port: ${api.targetPort}\n`);
  await stage.render();
  await confirmed(stage);
  for (const line of await describeKept(stage)) say(line);
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve));
}

/** Rejects as soon as the demo is interrupted. */
function interruption(signal: AbortSignal): Promise<never> {
  const { promise, reject } = Promise.withResolvers<never>();
  signal.addEventListener('abort', () => reject(new Error('interrupted')));
  return promise;
}

type Say = DemoOptions['say'];

async function renderFirst(stage: Stage, say: Say): Promise<void> {
  say('\n1. sluice render: Services and endpoints become rules, as files for a review.');
  await stage.render();
  say(indent(await stage.list()));
  const rules = stage.read('services/shop/api.iptables').split('\n');
  say(indent(['profiles/default/services/shop/api.iptables begins', ...rules.slice(0, 8), '…'].join('\n')));
}

async function startSluiced(stage: Stage, say: Say): Promise<void> {
  say(
    '\n2. sluiced run on both nodes: it checks the bundle, rehearses it in a scratch namespace, loads it beside the old rules, sends',
  );
  say(
    '   packets to it with one switch that falls back unless sluiced renews it, probes health, and only then confirms.',
  );
  for (const node of stage.nodes) node.start();
  await confirmed(stage);
  for (const node of stage.nodes) say(indent(await node.ask('status')));
}

/** Waits until sluiced has confirmed the bundle on every node: only then can a rollback return to it. */
async function confirmed(stage: Stage): Promise<void> {
  const versions = await stage.versions();
  for (const node of stage.nodes) {
    const { name } = node.host;
    await waitFor(`sluiced on ${name} confirms`, applyMs, async () => {
      const { version, open } = await node.status();
      return version === versions.get(name) && open === null ? true : undefined;
    });
  }
}

async function reachService(stage: Stage, say: Say): Promise<void> {
  say('\n3. The Service answers on every frontend:');
  const { cluster } = stage;
  const reach = async (title: string, from: string, to: string, port: number): Promise<void> => {
    const seenAs = await meet(cluster, from, to, port, api.pods);
    say(`   ${title.padEnd(48)} ${to}:${port} → ${api.pods.join(' and ')}, which see ${seenAs.join(', ')}`);
  };
  await reach('a pod through the cluster address', 'client', api.clusterIP, api.port);
  await reach('the client outside through a node port', 'outside', '192.0.2.12', api.nodePort);
  await cluster.enterAt(api.loadBalancerIP, 'node-2');
  await reach('the client outside through the load balancer', 'outside', api.loadBalancerIP, api.port);
}

async function changeManifest(stage: Stage, say: Say): Promise<void> {
  const wanted = 30_443;
  say(`\n4. A manifest changes: node port ${wanted} instead of ${api.nodePort}. The diff that a reviewer sees:`);
  const before = stage.read('services/shop/api.iptables');
  stage.edit('api.yaml', `nodePort: ${api.nodePort}`, `nodePort: ${wanted}`);
  await stage.render();
  say(indent(changedLines(before, stage.read('services/shop/api.iptables'))));
  for (const address of ['192.0.2.11', '192.0.2.12']) {
    await waitForAnswer(stage.cluster, 'outside', address, wanted, applyMs);
    const old = await ask(stage.cluster, 'outside', address, api.nodePort);
    if (old.kind !== 'refused') throw new Error(`The old node port of ${address} is still there: ${old.kind}`);
    say(`   ${address}:${wanted} answers, ${address}:${api.nodePort} is refused`);
  }
  await confirmed(stage);
}

async function breakHealth(stage: Stage, say: Say): Promise<void> {
  say(
    `\n5. A bad change: the endpoints get port ${wrongPort}, on which no server listens. sluiced applies it, then probes:`,
  );
  const before = await Promise.all(stage.nodes.map((node) => node.rules()));
  stage.edit('api.yaml', `port: ${api.targetPort}\n`, `port: ${wrongPort}\n`);
  await stage.render();
  const bad = await stage.versions();
  await Promise.all(
    stage.nodes.map((node, index) =>
      rollBack(node, { bad: bad.get(node.host.name) ?? '', before: before[index] ?? '' }, say),
    ),
  );
  await meet(stage.cluster, 'client', api.clusterIP, api.port, api.pods);
  say('   The Service answers again, without an operator, and each node remembers the bad version:');
  for (const node of stage.nodes) say(indent(await node.ask('history')));
}

interface BadRelease {
  readonly bad: string;
  readonly before: string;
}

/** Watches one node apply the bad release and roll back by itself. */
async function rollBack(node: DemoNode, { bad, before }: BadRelease, say: Say): Promise<void> {
  const { name } = node.host;
  const inQuarantine = async (): Promise<boolean> => Object.hasOwn((await node.status()).quarantined, bad);
  const seen = await waitFor(`the bad rules reach ${name}`, applyMs, async () => {
    if ((await node.rules()).includes(`:${wrongPort}`)) return 'the bad rules are in the kernel';
    // On a slow machine the rollback may be over before the first look.
    return (await inQuarantine()) ? 'the bad rules were in the kernel' : undefined;
  });
  say(`   ${name}: ${seen}, and the probe http://${api.clusterIP}:${api.port}/ fails …`);
  await waitFor(`${name} rolls back`, rollBackMs, async () =>
    (await inQuarantine()) && (await node.rules()) === before ? true : undefined,
  );
  say(`   ${name}: … the previous rules are restored, line for line; version ${bad} is quarantined`);
  await sleep(quarantineMs);
  if ((await node.rules()) !== before) throw new Error(`${name} has applied the bad release again`);
}

async function stopSluiced(stage: Stage, say: Say): Promise<void> {
  say('\n6. sluiced ends. Its rules stay: a node does not depend on a running program.');
  for (const node of stage.nodes) {
    await node.stop();
    say(`   ${node.host.name}: stopped`);
  }
  await meet(stage.cluster, 'client', api.clusterIP, api.port, api.pods);
}

/** The lines of only one of the texts, as a diff shows them. */
function changedLines(before: string, after: string): string {
  const old = before.split('\n');
  const now = after.split('\n');
  const gone = old.filter((line) => !now.includes(line)).map((line) => `- ${line}`);
  return [...gone, ...now.filter((line) => !old.includes(line)).map((line) => `+ ${line}`)].join('\n');
}

const indent = (text: string): string =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => `   | ${line.length > 140 ? `${line.slice(0, 139)}…` : line}`)
    .join('\n');
