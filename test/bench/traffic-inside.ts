// Reads connections on a node with many Services and many tracked connections. Runs inside network and mount namespaces of its own, started by
// traffic.ts, with the number of Services, that of connections, and the store of mode iptables, or `nftables`. Prints one JSON line.
import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { planeOf } from '@sluice/netfilter';
import { countsOfFrontends } from '../../packages/applier/src/apply/counts/of-frontends.ts';
import { ServiceCounts } from '../../packages/applier/src/apply/counts/service-counts.ts';
import { NftCounts } from '../../packages/applier/src/kernel/nft/nft-counts.ts';
import { processorMs, WorkCost } from '../../packages/applier/src/kernel/processor-time.ts';
import { readRuleCounts } from '../../packages/applier/src/kernel/rule-counts.ts';
import type { Run } from '../../packages/applier/src/kernel/command.ts';
import { runChildren } from '../../packages/applier/src/kernel/run.ts';
import { detectTools, findTool } from '../../packages/applier/src/kernel/tools.ts';
import { readTrackedTraffic } from '../../packages/applier/src/kernel/conntrack/traffic.ts';
import type { NodeState } from '../../packages/applier/src/ports/node-state.ts';
import { DiskJournal } from '../../packages/applier/src/state/journal.ts';
import { bundleProgram } from '../../tools/bundle.ts';
import { allocator } from './allocator.ts';
import { publish } from './inbox.ts';
import { mustBeInNamespace } from './in-namespace.ts';
import { median } from './measure.ts';

mustBeInNamespace();
const services = Number(process.argv[2] ?? 10_000);
const connections = Number(process.argv[3] ?? 250_000);
const way = process.argv[4] ?? 'nft';
const backend = way === 'nftables' ? 'nft' : (way as 'nft' | 'legacy');
const scratch = mkdtempSync(join(tmpdir(), 'sluice-traffic-'));
process.on('exit', () => rmSync(scratch, { recursive: true, force: true }));
const [bundle, state] = [join(scratch, 'rendered'), join(scratch, 'state')];
const [config, program] = [join(scratch, 'sluiced.yaml'), join(scratch, 'sluiced.mjs')];
await bundleProgram(join(import.meta.dirname, '../..'), 'sluiced', program, true);
if (way === 'nftables') publish(bundle, services, way, ['nftables: { endpointCounters: true }']);
else publish(bundle, services);
mkdirSync(state, { mode: 0o700 });
const configure = (isCounting: boolean): void =>
  writeFileSync(
    config,
    `apiVersion: sluice.dev/v1alpha1\nkind: SluicedConfig\nnode: node-0000\nsignatures: { policy: none }\nbundle: ${bundle}\nstate: ${state}\nbackend: ${backend}\nprobation: { seconds: 0 }\nlisten: 127.0.0.1:10276\ncountConnections: ${isCounting}\ncountTraffic: ${isCounting}\n`,
  );
configure(false);
execFileSync('/usr/sbin/ip', ['link', 'set', 'lo', 'up']);
execFileSync(process.execPath, [program, 'apply', bundle, '-c', config], { stdio: 'ignore' });
writeFileSync('/proc/sys/net/netfilter/nf_conntrack_acct', '1\n');

const active = DiskJournal.look(state, 'node-0000', () => new Date()).active?.state;
if (!active) throw new Error('Nothing is active');

/** The limit of tracked connections holds for each network namespace: more are in further ones, with all in one table of the kernel. */
const perNamespace = 250_000;
const further = Array.from({ length: Math.ceil(connections / perNamespace) - 1 }, (_, at) => `traffic-${at}`);
for (const name of further) execFileSync('/usr/sbin/ip', ['netns', 'add', name]);
process.on('exit', () => {
  for (const name of further) execFileSync('/usr/sbin/ip', ['netns', 'delete', name]);
});
const conntrack = findTool('conntrack') ?? 'conntrack';
const enter = (name: string): readonly string[] => [`--net=/run/netns/${name}`];

/** Connections from many clients, spread over all frontends of TCP and their endpoints. */
function fill(of: NodeState): void {
  const served = [...planeOf(of).read(of).served('tcp', { families: {} })].filter(
    ({ address, family }) => address !== undefined && family === 'ipv4',
  );
  const lines: string[] = [];
  for (let n = 0; n < Math.min(connections, perNamespace); n++) {
    const { address = '', port, endpoint } = served[n % served.length] as (typeof served)[number];
    const [pod = '', target = ''] = endpoint.split(':');
    const client = `198.18.${(n >> 16) & 255}.${(n >> 8) & 255}`;
    const sport = 1024 + Math.floor(n / 256) * 256 + (n & 255);
    lines.push(
      `-A -t 3600 -u SEEN_REPLY,ASSURED -s ${client} -d ${address} -r ${pod} -q ${client} -p tcp --sport ${1024 + (sport % 60_000)} --dport ${port} --reply-port-src ${target} --reply-port-dst ${1024 + (sport % 60_000)} --state ESTABLISHED`,
    );
  }
  const file = join(scratch, 'connections');
  writeFileSync(file, `${lines.join('\n')}\n`);
  execFileSync(conntrack, ['-R', file], { stdio: 'ignore' });
  for (const name of further)
    execFileSync('/usr/bin/nsenter', [...enter(name), conntrack, '-R', file], { stdio: 'ignore' });
}
fill(active);

async function costOf(work: () => Promise<unknown>): Promise<number> {
  const all: number[] = [];
  for (let round = 0; round < 3; round++) {
    const before = processorMs();
    await work();
    all.push((processorMs() - before) / 1000);
  }
  return median(all);
}

const told = new ServiceCounts();
const run = runChildren();
/** Starts tools in each namespace with connections. */
const inEach: readonly Run[] = [
  run,
  ...further.map(
    (name): Run =>
      (command) =>
        run({ ...command, file: '/usr/bin/nsenter', args: [...enter(name), command.file, ...command.args] }),
  ),
];
const tools = await detectTools(backend, run);
let live = 0;
const traffic = await costOf(async () => {
  live = 0;
  for (const of of inEach) {
    const reading = await readTrackedTraffic(conntrack, active, of);
    told.takeTraffic(reading, true, performance.now());
    live += [...reading.values()].flatMap((own) => [...own.values()]).reduce((sum, one) => sum + one.live, 0);
  }
});
const tool = await costOf(async () => {
  for (const of of inEach)
    for (const family of ['ipv4', 'ipv6'])
      await of({ file: conntrack, args: ['-L', '-f', family], onOutput: () => undefined });
});
const newConnections = await costOf(async () => {
  const nft = active.nft && (await new NftCounts(findTool('nft') ?? 'nft', run).read(new WorkCost()));
  const reading = active.nft
    ? nft && active.services && countsOfFrontends(nft, active.services)
    : await readRuleCounts(tools, run);
  if (reading) told.take(reading, active, performance.now());
});

/** Megabytes of the daemon, two readings after its start, when it has nothing to do. */
async function resident(isCounting: boolean): Promise<number> {
  configure(isCounting);
  const daemon = spawn(process.execPath, [program, 'run', '-c', config], {
    stdio: 'ignore',
    env: { ...process.env, ...allocator },
  });
  try {
    await sleep(45_000);
    const text = readFileSync(`/proc/${daemon.pid ?? 0}/status`, 'utf8');
    return Number(/VmRSS:\s+(\d+)/.exec(text)?.[1] ?? 0) / 1024;
  } finally {
    daemon.kill('SIGTERM');
    await new Promise((resolve) => daemon.once('exit', resolve));
  }
}

const counted = (command: readonly string[]): number =>
  Number(execFileSync('/usr/bin/env', [...command, 'cat', '/proc/sys/net/netfilter/nf_conntrack_count']));
const tracked = [[], ...further.map((name) => ['/usr/bin/nsenter', ...enter(name)])]
  .map(counted)
  .reduce((sum, one) => sum + one, 0);
const memory = [await resident(false), await resident(true)];
process.stdout.write(
  `${JSON.stringify({ connections: tracked, newConnections, traffic, tool, resident: memory, live })}\n`,
);
