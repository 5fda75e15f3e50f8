// `./dev bench`: every figure with its target and the ratio to a baseline of the same run. No test depends on a time.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { listTree } from '../../packages/renderer/src/load/tree.ts';
import { allocator } from './allocator.ts';
import { coldBench } from './cold.ts';
import { archiveBench } from './archive.ts';
import { commentsBench } from './comments.ts';
import { clusterList, daemonSet, type ClusterShape } from './data.ts';
import { countersBench } from './counters.ts';
import { doctorBench } from './doctor.ts';
import { ipvsBench } from './ipvs.ts';
import { interleave, ms, ratio, report, runMeasured } from './measure.ts';
import { phasesBench, servicesBench } from './phases.ts';
import { rehearsalBench } from './rehearsal.ts';
import { reportBench, review } from './review.ts';
import { questions } from './questions.ts';
import { fetchBench } from './fetch.ts';
import { fetchManyBench } from './fetch-many.ts';
import { fetchNodeBench } from './fetch-node.ts';
import { inboxBench } from './inbox.ts';
import { kernelBench } from './kernel.ts';
import { nftablesBench } from './nftables.ts';
import { nodeBench } from './node.ts';
import { observedBench } from './observed.ts';
import { executablesBench } from './executables.ts';
import { serveBench } from './serve.ts';
import { trafficBench } from './traffic.ts';
import { watchersBench } from './parity/watchers.ts';
import { watchBench } from './watch.ts';

const usage = `Usage: ./dev bench [PART…]

Prints every figure with its target and the ratio to a baseline of the same run. All parts take most of an hour; as root they measure rules in
kernels, too, in namespaces of their own.

Parts: PARTS

Examples:
  ./dev bench
  ./dev bench review report

  SLUICE_BENCH_ROUNDS=N  runs of each (default: 3)

./dev bench parity compares with the real kube-proxy: ./dev bench parity --help
`;
const root = join(import.meta.dirname, '../..');
const sluice = join(root, 'bin/sluice');
const node = process.execPath;
const scratch = mkdtempSync(join(tmpdir(), 'sluice-bench-'));
process.on('exit', () => rmSync(scratch, { recursive: true, force: true }));

const rounds = Number(process.env['SLUICE_BENCH_ROUNDS'] ?? 3);
let directories = 0;

/** A new directory for each run: the first write is the slow one. */
const renderInto = (input: string, ...more: readonly string[]) =>
  runMeasured(sluice, ['render', '-f', input, '-o', join(scratch, `out-${directories++}`), ...more]);
/** The minimum for every reader: node itself, parsing the same bytes. */
const parseOnly = (input: string) =>
  runMeasured(node, ['-e', `JSON.parse(require('node:fs').readFileSync(${JSON.stringify(input)}, 'utf8'))`]);

function write(name: string, text: string): string {
  const file = join(scratch, name);
  writeFileSync(file, text);
  return file;
}

async function startup(): Promise<void> {
  const runs = await interleave(rounds * 3, {
    ours: () => runMeasured(sluice, ['--version']),
    again: () => runMeasured(sluice, ['--version']),
    bare: () => runMeasured(node, ['-e', '0']),
  });
  const control = `A/A control ${ratio(runs.again.seconds, runs.ours.seconds)}`;
  report(
    'sluice --version',
    ms(runs.ours.seconds),
    'under 150 ms',
    `node -e 0 ${ms(runs.bare.seconds)}, ratio ${ratio(runs.ours.seconds, runs.bare.seconds)}; ${control}`,
  );
}

async function renderJson(title: string, shape: ClusterShape, target: string): Promise<void> {
  const list = clusterList(shape);
  if (shape.nodes > 1) list.items.push(...daemonSet(shape.nodes));
  const input = write(`${shape.nodes}.json`, JSON.stringify(list));
  const runs = await interleave(rounds, {
    ours: () => renderInto(input),
    again: () => renderInto(input),
    parse: () => parseOnly(input),
  });
  const files = listTree(join(scratch, `out-${directories - 1}`)).length;
  report(
    `${title}, ${files} files`,
    `${runs.ours.seconds.toFixed(2)} s, ${runs.ours.megabytes.toFixed(0)} MB`,
    target,
    `JSON.parse alone ${runs.parse.seconds.toFixed(2)} s, ratio ${ratio(runs.ours.seconds, runs.parse.seconds)}; A/A control ${ratio(runs.again.seconds, runs.ours.seconds)}`,
  );
}

async function readYaml(shape: ClusterShape): Promise<void> {
  const text = clusterList(shape)
    .items.map((item) => stringify(item))
    .join('---\n');
  const input = write('all.yaml', text);
  const read = (code: string) => runMeasured(node, ['--input-type=module', '-e', code]);
  const load = JSON.stringify(join(root, 'packages/renderer/src/load/load.ts'));
  const library = JSON.stringify(join(root, 'node_modules/yaml/dist/index.js'));
  const runs = await interleave(rounds, {
    ours: () =>
      read(
        `const { load } = await import(${load}); const { readFileSync } = await import('node:fs'); const { problems } = load([{ file: 'all.yaml', text: readFileSync(${JSON.stringify(input)}, 'utf8') }]); if (problems.length) throw new Error(problems[0].message)`,
      ),
    render: () => renderInto(input),
    library: () =>
      read(
        `const { default: yaml } = await import(${library}); const { readFileSync } = await import('node:fs'); for (const document of yaml.parseAllDocuments(readFileSync(${JSON.stringify(input)}, 'utf8'))) document.toJS()`,
      ),
  });
  report(
    `the same as ${(text.length / 1e6).toFixed(1)} MB of YAML: read`,
    `${runs.ours.seconds.toFixed(2)} s, ${runs.ours.megabytes.toFixed(0)} MB (read and rendered ${runs.render.seconds.toFixed(2)} s)`,
    'under 2 s',
    `yaml parseAllDocuments ${runs.library.seconds.toFixed(2)} s, ratio ${ratio(runs.ours.seconds, runs.library.seconds)}`,
  );
}

/** Needs root and iptables; in a network namespace and a mount namespace of its own. */
function oneEndpoint(services: number): void {
  if (process.getuid?.() !== 0) {
    process.stdout.write('one endpoint changes: not measured, it needs root\n');
    return;
  }
  const inside = 'mount -t tmpfs tmpfs /run && exec "$@"';
  const command = [
    '-n',
    '-m',
    'sh',
    '-c',
    inside,
    'sh',
    node,
    join(import.meta.dirname, 'change.ts'),
    String(services),
  ];
  const env = { ...process.env, ...allocator };
  const line = execFileSync('/usr/bin/unshare', command, { encoding: 'utf8', env });
  const measured = JSON.parse(line) as Record<
    'cold' | 'switched' | 'again' | 'confirmed' | 'partialSync' | 'commitAlone' | 'same' | 'sameSteps',
    number
  >;
  report(
    `one endpoint of ${services} Services changes, nf_tables: from the complete bundle to packets that meet the new rules`,
    `${measured.switched.toFixed(0)} ms; read back, confirmed and stored after ${measured.confirmed.toFixed(0)} ms (the first apply: ${measured.cold.toFixed(0)} ms)`,
    'under 120 ms of work',
    `kube-proxy's partial sync, its iptables-nft-restore alone ${measured.partialSync.toFixed(0)} ms, ratio ${ratio(measured.switched, measured.partialSync)}; a commit of one rule that no packet meets ${measured.commitAlone.toFixed(0)} ms, ratio ${ratio(measured.switched, measured.commitAlone)}; A/A control ${ratio(measured.again, measured.switched)}`,
  );
  report(
    `an equal bundle of ${services} Services again`,
    `${measured.sameSteps} writes to the kernel, ${measured.same.toFixed(0)} ms`,
    'no write',
    `one endpoint ${measured.switched.toFixed(0)} ms, ratio ${ratio(measured.same, measured.switched)}`,
  );
}

const large: ClusterShape = { services: 10_000, endpointsPerService: 5, nodes: 1 };

const parts: Readonly<Record<string, () => void | Promise<void>>> = {
  startup,
  executables: () => executablesBench(root, join(scratch, 'executables'), rounds),
  render: async () => {
    await renderJson('10,000 Services with 50,000 endpoints from JSON, 1 node', large, 'under 3 s and 1 GB');
    await renderJson(
      'the same for 1,000 nodes and a DaemonSet with Local policy',
      { ...large, nodes: 1000 },
      'under 6 s, 41,000 files or fewer per two profiles',
    );
  },
  yaml: () => readYaml(large),
  archive: () => archiveBench(10_000, rounds),
  review: () => review(sluice, scratch, rounds),
  observed: () => observedBench(sluice, join(root, 'bin/sluiced'), scratch, rounds),
  report: () => reportBench(sluice, scratch, rounds),
  questions: () => questions(sluice, scratch, rounds),
  endpoint: () => [1000, 10_000].forEach(oneEndpoint),
  fetch: async () => {
    await fetchBench(10_000);
    fetchNodeBench(10_000);
    await fetchManyBench(1_000, 500);
  },
  serve: () => serveBench(sluice, 1_000, 500),
  inbox: () => inboxBench(10_000),
  cold: () => coldBench(10_000),
  node: () => nodeBench(10_000),
  doctor: () => doctorBench(10_000, rounds),
  traffic: () => [250_000, 1_000_000].forEach((connections) => trafficBench(10_000, connections)),
  counters: () => countersBench(10_000),
  comments: () => commentsBench(10_000),
  watchers: () => watchersBench(root, scratch, 1_000, 50),
  watch: () => watchBench(sluice, { ...large, nodes: 100 }),
  kernel: () => kernelBench(sluice),
  rehearsal: () => rehearsalBench(10_000),
  ipvs: () => ipvsBench(10_000),
  phases: () => {
    phasesBench([1_000, 10_000], ['nftables', 'iptables']);
    servicesBench([1_000, 10_000], ['nftables', 'iptables', 'ipvs']);
  },
  nftables: () => nftablesBench([1_000, 10_000, 45_000], rounds),
};

const asked = process.argv.slice(2);
const unknown = asked.filter((part) => !Object.hasOwn(parts, part));
if (unknown.length > 0) {
  const isHelp = unknown.some((word) => ['--help', '-h'].includes(word));
  const text = usage.replace('PARTS', Object.keys(parts).join(', '));
  (isHelp ? process.stdout : process.stderr).write(isHelp ? text : `error: bench has no part ${unknown[0]}\n\n${text}`);
  process.exit(isHelp ? 0 : 2);
}
process.stdout.write(
  `node ${process.version}, ${cpus().length} × ${cpus()[0]?.model ?? 'unknown processor'}, median of ${rounds} interleaved runs\n\n`,
);
for (const [name, run] of Object.entries(parts)) if (asked.length === 0 || asked.includes(name)) await run();
