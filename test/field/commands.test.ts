// @module-tag test
import type { ParityReport } from '@sluice/bundle';
import { beforeEach, expect, test, vi } from 'vitest';
import { needKernel } from '../netns/privileges.ts';
import { type Call, type CaseRun, isServed, runCase } from './harness.ts';

/** What `sluice` says of tickets, manifests and configs of public tickets. */

vi.setConfig({ testTimeout: 180_000 });
beforeEach(needKernel);

const callsOf = ({ calls }: CaseRun, verb: string): readonly Call[] => calls.filter(({ args }) => args[0] === verb);

/** The reports of a script, which calls `sluice parity` twice for each. */
const reportsOf = (run: CaseRun): readonly ParityReport[] =>
  callsOf(run, 'parity')
    .filter((_, index) => index % 2 === 0)
    .map(({ json }) => json as ParityReport);

const resultsOf = (run: CaseRun): readonly string[] => reportsOf(run).map(({ result }) => result);

test.each(['iptables', 'nftables'])('01, mode %s: the port for health checks of a Service is served', async (mode) => {
  const { output, asked } = await runCase('case-01', { M: mode });
  expect(output).toMatch(/^200$/m);
  expect(asked.map(isServed)).toEqual([true]);
});

test('02: tickets of another form are incomplete, and a trace of them cannot say', async () => {
  const run = await runCase('case-02');
  // Rules that are indented are read, so nothing is missing there.
  expect(resultsOf(run)).toEqual(['incomplete', 'incomplete', 'incomplete', 'equivalent', 'incomplete']);
  expect(reportsOf(run).flatMap(({ differences }) => differences)).toEqual([]);
  expect(callsOf(run, 'trace').map(({ exitCode }) => exitCode)).toEqual([2, 2, 2, 0]);
});

test('04: a policy of Calico is no difference', async () => {
  const run = await runCase('case-04');
  expect(resultsOf(run)).toEqual(['equivalent']);
});

test('05: packets that the kernel drops as martians are no difference of mode ipvs', async () => {
  const run = await runCase('case-05');
  const found = reportsOf(run).flatMap(({ differences }) => differences);
  expect(found.filter(({ cause }) => cause === 'bug' || cause === 'objects')).toEqual([]);
  expect(JSON.stringify(found)).not.toContain('127.0.0.10');
});

test('11: the address of another node on kube-ipvs0 stops --strict, and is ordinary in mode iptables', async () => {
  const run = await runCase('case-11');
  expect(callsOf(run, 'validate').map(({ exitCode }) => exitCode)).toEqual([2, 0]);
  expect(run.output).toContain('[SERVICE_SHADOWS]');
  const [, iptables] = callsOf(run, 'policy');
  expect(iptables?.exitCode).toBe(0);
});

test('12: a KubeProxyConfiguration is found by what it says, under any name and key', async () => {
  const { output } = await runCase('case-12');
  expect(output.match(/^mode: \w+/gm)).toEqual(['mode: ipvs', 'mode: ipvs']);
});

test('14: rules of other programs that stay are no difference', async () => {
  const run = await runCase('case-14');
  expect(resultsOf(run)).toEqual(['equivalent', 'equivalent']);
});

test('20: a scheduler that keeps clients is compared', async () => {
  const run = await runCase('case-20');
  expect(resultsOf(run)).toEqual(['different', 'equivalent']);
  // Between modes it is one of their documented differences.
  expect(run.output).toContain('ipvs.scheduler');
  expect(run.output).toContain('DIFFERS_SCHEDULER');
});

test('23: fields of the configuration are the cause, not objects or a bug', async () => {
  const [report] = reportsOf(await runCase('case-23'));
  expect(report?.result).toBe('different');
  expect(new Set(report?.differences.map(({ cause }) => cause))).toEqual(new Set(['config']));
});

test('25: init takes what the configuration of kubeadm says', async () => {
  const { output } = await runCase('case-25');
  expect(output).toMatch(/^rc 0$/m);
  expect(output).toMatch(/kubeProxyVersion: "?1\.32/);
  expect(output).toMatch(/clusterCIDR: "?10\.244\.0\.0\/16/);
  expect(output).toMatch(/serviceCIDRs: \[ 10\.97\.0\.0\/16/);
});

test('26: an annotation for source ranges that restricts nothing is named', async () => {
  const run = await runCase('case-26');
  expect(callsOf(run, 'policy')[0]?.stdout).toContain('[ANNOTATION_WITHOUT_EFFECT]');
});

test('28: a merge key in a manifest is one error or none', async () => {
  const [call] = callsOf(await runCase('case-28'), 'validate');
  expect(call?.stdout.match(/\[[A-Z_]+\]$/gm)?.length ?? 0).toBeLessThan(2);
});
