// `./dev bench parity`: Sluice compared with the real kube-proxy on one API server, alternately, each on an empty node. The method
// is described in test/README.md.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, loadavg, release, tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { execa } from 'execa';
import { apiServerPrograms } from '../../parity/binaries.ts';
import type { BenchPlan, RoundResult } from './inside.ts';
import { type BenchPrograms, preparePrograms } from './programs.ts';
import type { Round } from './round.ts';
import { type SubjectName, subjectNames } from './subjects.ts';
import { type BenchSummary, summarise } from './summary.ts';
import { tableOf } from './table.ts';

const root = join(import.meta.dirname, '../../..');

const usage = `Usage: ./dev bench parity [options]

  --services N,…   sizes of the cluster (default: 1000,5000,10000)
  --endpoints N    of each Service (default: 5)
  --rounds N       starts of each subject (default: 3)
  --changes N      of each subject over all rounds (default: 30)
  --changing WHAT  endpoint: one is replaced; service: its port gets the name of another slice's (default: endpoint)
  --steady S       seconds of 100 changes a second at the end of each round (default: 0)
  --subjects WORD  only the one of this name, or those with it in their name, such as nf_tables
  --dir DIRECTORY  where the programs write (default: the one for temporary files)
  -o FILE          all figures as JSON
`;

function readOptions() {
  const { values } = parseArgs({
    args: process.argv.slice(2),
    options: {
      services: { type: 'string', default: '1000,5000,10000' },
      endpoints: { type: 'string', default: '5' },
      rounds: { type: 'string', default: '3' },
      changes: { type: 'string', default: '30' },
      changing: { type: 'string', default: 'endpoint' },
      steady: { type: 'string', default: '0' },
      subjects: { type: 'string', default: '' },
      dir: { type: 'string', default: tmpdir() },
      output: { type: 'string', short: 'o' },
    },
  });
  const [endpoints, rounds, changes, steady] = [values.endpoints, values.rounds, values.changes, values.steady].map(
    Number,
  ) as [number, number, number, number];
  const sizes = values.services.split(',').map(Number);
  const named = subjectNames.filter((name) => name === values.subjects);
  const subjects = named.length > 0 ? named : subjectNames.filter((name) => name.includes(values.subjects));
  const changing = (['endpoint', 'service'] as const).find((what) => what === values.changing);
  const isGood =
    sizes.every((size) => size >= 3 && size <= 60_000) &&
    endpoints >= 1 &&
    rounds >= 1 &&
    changes >= rounds &&
    steady >= 0;
  if (!isGood || !changing || subjects.length === 0) throw new Error('an option has an invalid value');
  return { sizes, endpoints, rounds, changes, changing, steady, subjects, dir: values.dir, output: values.output };
}

/** The versions that the figures depend on. */
async function versionsOf(
  programs: BenchPrograms,
  apiServer: BenchPlan['apiServer'],
): Promise<Readonly<Record<string, string>>> {
  const first = async (...argv: readonly [string, ...string[]]): Promise<string> => {
    const { stdout } = await execa(argv[0], argv.slice(1), { reject: false });
    return stdout.split('\n')[0]?.trim() ?? '';
  };
  return {
    sluice: await first(programs.sluice, '--version'),
    'kube-proxy': await first(programs.kubeProxy, '--version'),
    'API server':
      apiServer === undefined
        ? "the tests' own, without a store: kube-apiserver and etcd are not built"
        : `${await first(apiServer.apiserver, '--version')}, ${await first(apiServer.etcd, '--version')}`,
    iptables: await first('iptables', '--version'),
    nft: await first('nft', '--version'),
    kernel: release(),
    node: process.version,
    processors: `${cpus().length} × ${cpus()[0]?.model.trim() ?? 'unknown'}`,
  };
}

/** Runs a plan in namespaces of its own, which end with this process, however it ends. @returns its rounds by subject, and the failures */
async function carryOut(plan: BenchPlan): Promise<{ rounds: Map<SubjectName, Round[]>; failures: readonly string[] }> {
  const script = join(import.meta.dirname, 'inside.ts');
  const shell = 'mount -t tmpfs tmpfs /run && exec "$@"';
  const namespaces = ['--net', '--mount', '--pid', '--fork', '--kill-child', '--mount-proc'];
  const argv = [...namespaces, 'sh', '-c', shell, 'sh', process.execPath, script, JSON.stringify(plan)];
  // Its standard input ends with this process.
  const child = spawn('/usr/bin/unshare', argv, { stdio: ['pipe', 'pipe', 'inherit'] });
  const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
  const rounds = new Map<SubjectName, Round[]>();
  const failures: string[] = [];
  for await (const line of createInterface({ input: child.stdout })) {
    const result = JSON.parse(line) as RoundResult;
    if ('failure' in result) failures.push(`${result.subject}: ${result.failure.split('\n')[0]}`);
    else rounds.set(result.subject, [...(rounds.get(result.subject) ?? []), result.round]);
  }
  const code = await ended;
  if (code !== 0) failures.push(`the bench of ${plan.services} Services exited with ${code}`);
  return { rounds, failures };
}

async function main(): Promise<void> {
  const { sizes, endpoints, rounds, changes, changing, steady, subjects, output, ...where } = readOptions();
  const dir = mkdtempSync(join(where.dir, 'sluice-parity-bench-'));
  process.on('exit', () => rmSync(dir, { recursive: true, force: true }));
  const programs = await preparePrograms(root, dir);
  if ('lack' in programs) {
    process.stdout.write(`parity: not measured, ${programs.lack}\n`);
    return;
  }
  const found = await apiServerPrograms(false);
  const apiServer = 'lack' in found ? undefined : found;
  const versions = await versionsOf(programs, apiServer);
  process.stdout.write(
    Object.entries(versions)
      .map(([name, version]) => `${name}: ${version}\n`)
      .join(''),
  );
  process.stdout.write('mode ipvs: not measured\n');
  const results: Record<number, object> = {};
  for (const services of sizes) {
    const load = loadavg()[0] ?? 0;
    const plan = {
      services,
      endpointsPerService: endpoints,
      rounds,
      changesPerRound: Math.ceil(changes / rounds),
      steadySeconds: steady,
      changing,
      subjects,
      programs,
      dir,
      ...(apiServer && { apiServer }),
    };
    const measured = await carryOut(plan);
    const summaries = new Map(
      [...measured.rounds].map(([name, all]): [SubjectName, BenchSummary] => [name, summarise(all)]),
    );
    const title = `${services} Services with ${endpoints} endpoints each; starts of each: ${rounds}, in turns, with ${plan.changesPerRound} changes (${changing}) each time; load of the machine before: ${load.toFixed(1)}`;
    process.stdout.write(`\n${title}\n\n${tableOf(summaries)}`);
    for (const failure of measured.failures) process.stdout.write(`FAILED: ${failure}\n`);
    if (measured.failures.length > 0) process.exitCode = 1;
    results[services] = { load, rounds: Object.fromEntries(measured.rounds), summaries: Object.fromEntries(summaries) };
    if (output !== undefined) writeFileSync(output, `${JSON.stringify({ versions, endpoints, results }, null, 2)}\n`);
  }
}

if (process.argv.includes('--help')) process.stdout.write(usage);
else
  await main().catch((error: unknown) => {
    process.stderr.write(`${(error as Error).message}\n\n${usage}`);
    process.exitCode = 2;
  });
