// Mode ipvs needs a kernel with IPVS: it is measured in the emulated guest of test/vm, which is some twenty times
// slower than a machine. So the numbers of processes are the figures, and the times only show which part is slow.
// Run by itself: `node test/bench/ipvs.ts [SERVICES]`.
import { join } from 'node:path';
import { buildTestPrograms } from '../../tools/test-programs.ts';
import { bootGuest } from '../vm/guest.ts';
import { whyNoGuest } from '../vm/image.ts';
import type { ReleaseCost } from './ipvs-inside.ts';
import { report } from './measure.ts';

const insideMsMax = 20 * 60_000;

/** The output of ipvs-inside.ts. */
interface IpvsCosts {
  /** Processes that look for tools at the start of sluiced. */
  readonly atStart: number;
  readonly cold: ReleaseCost;
  readonly change: ReleaseCost;
}

/** The first release of so many Services with 5 endpoints each, and one changed endpoint. Reports where no guest can run. */
export async function ipvsBench(services: number): Promise<void> {
  const reason = whyNoGuest();
  if (reason !== undefined) {
    process.stdout.write(`mode ipvs, ${services} Services: not measured, ${reason}\n`);
    return;
  }
  process.env['SLUICE_PROGRAMS'] ??= await buildTestPrograms(join(import.meta.dirname, '../..'));
  await using guest = await bootGuest({ memory: 3072 });
  const inside = ['node', 'test/bench/ipvs-inside.ts', String(services)];
  const { code, stdout, stderr } = await guest.run(inside, { timeoutMs: insideMsMax });
  if (code !== 0) throw new Error(`Cannot measure mode ipvs in the guest: ${stderr.slice(-2000)}`);
  const { atStart, cold, change } = JSON.parse(stdout) as IpvsCosts;
  const title = `mode ipvs, ${services} Services with 5 endpoints, emulated`;
  report(
    `${title}: first release`,
    figures(cold),
    'at most 20 processes',
    `${byTool(cold)}; before it ${atStart} look for tools`,
  );
  report(`${title}: one endpoint changes`, figures(change), 'at most 6 processes', byTool(change));
}

const figures = ({ ms, total, changing }: ReleaseCost): string =>
  `${total} processes, ${changing} of which change the kernel; ${(ms / 1000).toFixed(1)} s`;

const byTool = (taken: ReleaseCost): string =>
  `by tool: ${Object.entries(taken.byTool)
    .map(([name, count]) => `${name} ${count}`)
    .join(', ')}`;

if (import.meta.main) await ipvsBench(Number(process.argv[2] ?? 10_000));
