// How long `sluiced doctor` takes on a node with many Services: `node test/bench/doctor.ts [SERVICES]`, as root.
import { execFileSync } from 'node:child_process';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { report } from './measure.ts';

/** The output of doctor-inside.ts. */
interface DoctorCosts {
  readonly seconds: number;
  readonly processor: number;
  readonly unread: readonly string[];
  readonly cause: string;
}

const services = Number(process.argv[2] ?? 10_000);
for (const way of process.argv[3]?.split(',') ?? ['nft', 'legacy', 'nftables']) {
  const script = join(import.meta.dirname, 'doctor-inside.ts');
  const command = ['-n', '-m', 'sh', '-c', 'mount -t tmpfs tmpfs /run && exec "$@"', 'sh'];
  const args = [...command, process.execPath, script, String(services), way];
  const load = loadavg()[0]?.toFixed(1) ?? '';
  const costs = JSON.parse(execFileSync('/usr/bin/unshare', args, { encoding: 'utf8' })) as DoctorCosts;
  report(
    `sluiced doctor, ${services} Services, ${way === 'nftables' ? 'mode nftables' : `mode iptables, ${way}`}`,
    `${costs.seconds.toFixed(1)} s`,
    'under 10 s',
    `${costs.processor.toFixed(1)} s of a processor, load ${load} before; cause ${costs.cause}; not read: ${costs.unread.join(', ') || 'nothing'}`,
  );
}
