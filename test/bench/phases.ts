// Where a change of one endpoint or Service spends its time, from the API's event to the journal:
// `node test/bench/phases.ts [SERVICES,… [MODES [CHANGES [endpoint|service]]]]`.
import { execFileSync } from 'node:child_process';
import { loadavg } from 'node:os';
import { join } from 'node:path';

/** The output of phases-inside.ts: milliseconds of a phase, elapsed and of processors. */
interface PhaseTimes {
  readonly name: string;
  readonly elapsedMs: number;
  readonly ownMs: number;
  readonly toolsMs: number;
}

/** The phases of `sluice watch`; the others are those of `sluiced`. */
const ofWatch: readonly string[] = ['decode', 'render', 'write'];

/** The phases in the order of a change. */
const order = [
  'decode',
  'render',
  'write',
  'notice',
  'read',
  'admit, link',
  'plan',
  'journal, before the kernel',
  'kernel',
  'until the kernel has it',
  'verify',
  'journal, after it',
  'rest of the change',
  'all',
  'idle, afterwards',
];

/** By kind of change: `endpoint`, or `added`, `changed` and `removed` for Services. */
type Phases = Readonly<Record<string, readonly PhaseTimes[]>>;

function inside(mode: string, services: number, changes: number, what: 'endpoint' | 'service'): Phases {
  const script = join(import.meta.dirname, 'phases-inside.ts');
  const shell = 'mount -t tmpfs tmpfs /run && exec "$@"';
  const argv = [process.execPath, script, mode, String(services), String(changes), what];
  const command = ['-n', '-m', 'sh', '-c', shell, 'sh', ...argv];
  return JSON.parse(execFileSync('/usr/bin/unshare', command, { encoding: 'utf8' })) as Phases;
}

const processorMs = (phases: readonly PhaseTimes[], isCounted: (name: string) => boolean): number =>
  phases.reduce((sum, { name, ownMs, toolsMs }) => sum + (isCounted(name) ? ownMs + toolsMs : 0), 0);

/** Prints what a Service that comes, changes or goes costs both programs at two sizes, with the ratio. @param changes of each kind */
export function servicesBench([small, large]: readonly [number, number], modes: readonly string[], changes = 21): void {
  for (const mode of modes) {
    const [few, many] = [small, large].map((services) => inside(mode, services, changes, 'service'));
    const rows = Object.keys(few ?? {}).flatMap((kind) =>
      (['sluice watch', 'sluiced'] as const).map((program) => {
        const isCounted = (name: string): boolean =>
          order.indexOf(name) < order.indexOf('all') &&
          name !== 'until the kernel has it' &&
          ofWatch.includes(name) === (program === 'sluice watch');
        const [a = 0, b = 0] = [few, many].map((phases) => processorMs(phases?.[kind] ?? [], isCounted));
        return `| ${kind} | ${program} | ${a.toFixed(1)} | ${b.toFixed(1)} | ${(b / a).toFixed(2)} |`;
      }),
    );
    process.stdout.write(
      `mode ${mode}, a Service, ms of processors, ${changes} changes, load ${loadavg()[0]?.toFixed(1)}\n\n| a Service | program | ${small} Services | ${large} | ratio |\n|---|---|---|---|---|\n${rows.join('\n')}\n\n`,
    );
  }
}

/** Prints one table for each mode. @param changes of each size; the medians are printed */
export function phasesBench(sizes: readonly number[], modes: readonly string[], changes = 101): void {
  for (const mode of modes) {
    const found = sizes.map(
      (services) =>
        new Map((inside(mode, services, changes, 'endpoint')['endpoint'] ?? []).map((one) => [one.name, one])),
    );
    const cell = (one: PhaseTimes | undefined): string =>
      one === undefined ? '–' : `${one.elapsedMs.toFixed(1)} / ${(one.ownMs + one.toolsMs).toFixed(1)}`;
    const rows = order
      .filter((name) => found.some((phases) => phases.has(name)))
      .map((name) => `| ${name} | ${found.map((phases) => cell(phases.get(name))).join(' | ')} |`);
    const heads = sizes.map((services) => `${services} Services: ms elapsed / of processors`);
    process.stdout.write(
      `mode ${mode}, ${changes} changes, load ${loadavg()[0]?.toFixed(1)}\n\n| phase | ${heads.join(' | ')} |\n|---|${'---|'.repeat(sizes.length)}\n${rows.join('\n')}\n\n`,
    );
  }
}

if (import.meta.main) {
  const [sizes = '1000,10000', modes = 'nftables,iptables', changes = '101', what = 'endpoint'] = process.argv.slice(2);
  const [small = 1_000, large = 10_000] = sizes.split(',').map(Number);
  if (what === 'service') servicesBench([small, large], modes.split(','), Number(changes));
  else phasesBench(sizes.split(',').map(Number), modes.split(','), Number(changes));
}
