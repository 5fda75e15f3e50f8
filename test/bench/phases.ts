// Where a change of one endpoint spends its time, from the API's event to the journal: `node test/bench/phases.ts [SERVICES,… [MODES]]`.
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

function inside(mode: string, services: number, changes: number): readonly PhaseTimes[] {
  const script = join(import.meta.dirname, 'phases-inside.ts');
  const shell = 'mount -t tmpfs tmpfs /run && exec "$@"';
  const argv = [process.execPath, script, mode, String(services), String(changes)];
  const command = ['-n', '-m', 'sh', '-c', shell, 'sh', ...argv];
  return (JSON.parse(execFileSync('/usr/bin/unshare', command, { encoding: 'utf8' })) as { phases: PhaseTimes[] })
    .phases;
}

/** Prints one table for each mode. @param changes of each size; the medians are printed */
export function phasesBench(sizes: readonly number[], modes: readonly string[], changes = 101): void {
  for (const mode of modes) {
    const found = sizes.map((services) => new Map(inside(mode, services, changes).map((one) => [one.name, one])));
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
  const [sizes = '1000,10000', modes = 'nftables,iptables', changes = '101'] = process.argv.slice(2);
  phasesBench(sizes.split(',').map(Number), modes.split(','), Number(changes));
}
