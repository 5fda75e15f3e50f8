import { cpSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { execFileSync } from 'node:child_process';
import { clusterList } from './data.ts';
import { publish } from './inbox.ts';
import { interleave, median, ms, ratio, report, runMeasured } from './measure.ts';
import { openTab } from '../docs/tab.ts';
import { chromium } from '../report/chromium.ts';

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
  const table = join(scratch, 'review-nftables');
  publish(table, services, 'nftables');
  const runs = await interleave(rounds, {
    prove: () => runMeasured(sluice, ['prove', old]),
    proveTable: () => runMeasured(sluice, ['prove', table]),
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
    `sluice prove, ${services} Services in mode nftables`,
    `${runs.proveTable.seconds.toFixed(2)} s, ${runs.proveTable.megabytes.toFixed(0)} MB`,
    'under 5 s',
    `sluice prove in mode iptables ${runs.prove.seconds.toFixed(2)} s, ratio ${ratio(runs.proveTable.seconds, runs.prove.seconds)}`,
  );
  report(
    `sluice trace, ${services} Services`,
    ms(runs.trace.seconds),
    'under 300 ms',
    `sluice ls ${ms(runs.list.seconds)}, ratio ${ratio(runs.trace.seconds, runs.list.seconds)}`,
  );
}

/**
 * The report on 10,000 Services on 100 nodes of which 100 differ: made beside the two commands whose work it has, and opened in a
 * browser, if there is one.
 */
export async function reportBench(sluice: string, scratch: string, rounds: number): Promise<void> {
  const services = 10_000;
  const [old, fresh, page] = ['report-old', 'report-new', 'report.html'].map((name) => join(scratch, name)) as [
    string,
    string,
    string,
  ];
  const [input, config] = [join(scratch, 'report.json'), join(scratch, 'report.yaml')];
  writeFileSync(input, JSON.stringify(clusterList({ services, endpointsPerService: 5, nodes: 100 })));
  writeFileSync(config, 'apiVersion: sluice.dev/v1alpha1\nkind: SluiceConfig\n');
  execFileSync(sluice, ['render', '-f', input, '-o', old], { stdio: 'ignore' });
  cpSync(old, fresh, { recursive: true });
  for (let n = 0; n < changedServices; n++) changeEndpoint(fresh, n * 97, n);
  const make = `"$0" report "$1" "$2" -c "$3" > "$4"; test $? -eq 1`;
  const runs = await interleave(rounds, {
    ours: () => runMeasured('/bin/sh', ['-c', make, sluice, old, fresh, config, page]),
    again: () => runMeasured('/bin/sh', ['-c', make, sluice, old, fresh, config, page]),
    diff: () => differing(sluice, [old, fresh]),
    policy: () => runMeasured(sluice, ['policy', fresh, '--base', old, '-c', config]),
  });
  const parts = runs.diff.seconds + runs.policy.seconds;
  report(
    `sluice report, ${services} Services of which ${changedServices} differ`,
    `${runs.ours.seconds.toFixed(2)} s, ${(statSync(page).size / 1e6).toFixed(2)} MB`,
    'under 6 s and 3 MB; 20 s and 20 MB before facts were read once',
    `sluice diff and sluice policy ${parts.toFixed(2)} s, ratio ${ratio(runs.ours.seconds, parts)}; A/A control ${ratio(runs.again.seconds, runs.ours.seconds)}`,
  );
  if (chromium !== undefined) await openings(page, rounds);
}

/** The time from the request of a view to its being drawn, beside an empty page. */
async function openings(page: string, rounds: number): Promise<void> {
  const tab = await openTab('document.documentElement.dataset.ready');
  const opened = async (url: string, isReady?: string): Promise<number> => {
    const started = performance.now();
    await tab.open(url, 1280, 'light', isReady);
    return (performance.now() - started) / 1000;
  };
  for (const view of ['changes', 'drawing', 'cluster']) {
    const [ours, empty]: [number[], number[]] = [[], []];
    for (let round = 0; round < rounds; round++) {
      empty.push(await opened('about:blank#', 'true'));
      ours.push(await opened(`file://${page}#${view}`));
    }
    const [own, least] = [median(ours), median(empty)];
    report(
      `the view ${view} of its page`,
      ms(own),
      'under 1 s',
      `an empty page ${ms(least)}, ratio ${ratio(own, least)}`,
    );
  }
  await tab.close();
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
