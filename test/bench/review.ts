import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { execFileSync } from 'node:child_process';
import { clusterList } from './data.ts';
import { interleave, ms, ratio, report, runMeasured } from './measure.ts';

/** The number of Services of the second bundle with another endpoint. */
const changedServices = 100;

/**
 * The review of 10,000 Services: a comparison in which 100 of them differ, one in which a base file does, a proof, a trace.
 * @param scratch a directory to write bundles into
 */
export async function review(sluice: string, scratch: string, rounds: number): Promise<void> {
  const services = 10_000;
  const [old, fresh] = [join(scratch, 'review-old'), join(scratch, 'review-new')];
  const input = join(scratch, 'review.json');
  writeFileSync(input, JSON.stringify(clusterList({ services, endpointsPerService: 5, nodes: 1 })));
  execFileSync(sluice, ['render', '-f', input, '-o', old], { stdio: 'ignore' });
  cpSync(old, fresh, { recursive: true });
  for (let n = 0; n < changedServices; n++) changeEndpoint(fresh, n * 97, n);
  const base = join(scratch, 'review-base');
  cpSync(old, base, { recursive: true });
  changeBase(base);
  const raw = await interleave(rounds, {
    ours: () => differing(sluice, [old, fresh]),
    again: () => differing(sluice, [old, fresh]),
    base: () => differing(sluice, [old, base]),
    text: () => differing('diff', ['-r', old, fresh]),
  });
  report(
    `sluice diff, ${services} Services of which ${changedServices} differ`,
    `${raw.ours.seconds.toFixed(2)} s`,
    'under 3 s',
    `diff -r ${raw.text.seconds.toFixed(2)} s; A/A control ${ratio(raw.again.seconds, raw.ours.seconds)}`,
  );
  report(
    `sluice diff, ${services} Services whose base file differs`,
    `${raw.base.seconds.toFixed(2)} s`,
    'under 4 s where no traffic changes',
    `${changedServices} changed Services ${raw.ours.seconds.toFixed(2)} s, ratio ${ratio(raw.base.seconds, raw.ours.seconds)}`,
  );
  const runs = await interleave(rounds, {
    prove: () => runMeasured(sluice, ['prove', old]),
    trace: () =>
      runMeasured(sluice, ['trace', old, '--node', 'node-0000', '--from', '10.128.0.7', '--to', '10.96.1.5:80/tcp']),
    list: () => runMeasured(sluice, ['ls', old]),
  });
  report(
    `sluice prove, ${services} Services on one profile`,
    `${runs.prove.seconds.toFixed(2)} s, ${runs.prove.megabytes.toFixed(0)} MB`,
    'under 20 s',
    `sluice ls, which resolves and hashes the same rules, ${runs.list.seconds.toFixed(2)} s, ratio ${ratio(runs.prove.seconds, runs.list.seconds)}`,
  );
  report(
    `sluice trace, ${services} Services`,
    ms(runs.trace.seconds),
    'under 300 ms',
    `sluice ls ${ms(runs.list.seconds)}, ratio ${ratio(runs.trace.seconds, runs.list.seconds)}`,
  );
}

/** A program that exits with 1 when two things differ. */
async function differing(command: string, args: readonly string[]): ReturnType<typeof runMeasured> {
  const program = command === 'diff' ? 'diff "$@"' : '"$0" diff "$@"';
  return runMeasured('/bin/sh', ['-c', `${program}; test $? -eq 1`, command, ...args]);
}

/** Source ports of masqueraded connections in order: a line that all Services share. */
function changeBase(bundle: string): void {
  const file = join(bundle, 'profiles/default/base/first.iptables');
  writeFileSync(file, readFileSync(file, 'utf8').replace(' --random-fully', ''));
}

/** Another address for the first endpoint of a Service, in every rule that has it. */
function changeEndpoint(bundle: string, service: number, n: number): void {
  const file = join(bundle, `profiles/default/services/ns-${service % 50}/svc-${service}.iptables`);
  const text = readFileSync(file, 'utf8');
  const address = /^# endpoint \S+ ([0-9.]+):/m.exec(text)?.[1] ?? '';
  writeFileSync(
    file,
    text.replaceAll(new RegExp(`${address.replaceAll('.', '\\.')}(?=[: ])`, 'g'), `10.250.0.${n + 1}`),
  );
}
