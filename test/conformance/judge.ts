import { readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import type { Host } from '../netns/cluster-host.ts';
import { places } from './addresses.ts';
import type { Programs } from './programs.ts';

/** What a test of Kubernetes said. */
export type Verdict = 'passed' | 'failed' | 'skipped';

export interface Judgement {
  /** By the full title of a test. */
  readonly verdicts: ReadonlyMap<string, Verdict>;
  /** The first line of each failure. */
  readonly failures: ReadonlyMap<string, string>;
}

/** https://github.com/kubernetes/kubernetes/tree/master/test/e2e/network: those that concern what forwards packets of Services. */
export const focus =
  '\\[sig-network\\] (Services|EndpointSlice|EndpointsController|Conntrack|Networking Granular|\\[Feature:IPv6DualStack\\]|Traffic Distribution|Topology|Service CIDRs|HostPort|NoSNAT|KubeProxy|Proxy version|Service endpoints)';
/** What these machines have not: a load balancer of a cloud, SCTP sockets; and what breaks nodes or takes long. */
export const skip = 'Feature:LoadBalancer|Feature:SCTP|\\[Disruptive\\]|\\[Slow\\]|\\[Serial\\]|Performance';

export interface JudgeOptions {
  readonly focus: string;
  readonly skip: string;
  /** At once. */
  readonly processes: number;
  readonly timeoutMs: number;
}

/** Runs Kubernetes' own tests on a machine that reaches the API server. @param folder for its report and log */
export async function judge(
  control: Host,
  programs: Programs,
  kubeconfig: string,
  folder: string,
  options: JudgeOptions,
): Promise<Judgement> {
  // ginkgo takes no file for a test that has another ending.
  const suite = join(folder, 'network.test');
  symlinkSync(programs['network.test'], suite);
  const tests = [
    suite,
    '--',
    `--kubeconfig=${kubeconfig}`,
    '--provider=local',
    `--kubectl-path=${programs.kubectl}`,
    `--report-dir=${folder}`,
    '--minStartupPods=0',
    '--allowed-not-ready-nodes=0',
    `--num-nodes=${places.length}`,
  ];
  const chosen = [`--focus=${options.focus}`, `--skip=${options.skip}`, `--procs=${options.processes}`, '--no-color'];
  const run = [
    'env',
    `HOME=${folder}`,
    `TMPDIR=${folder}`,
    programs.ginkgo,
    'run',
    ...chosen,
    '--junit-report=report.xml',
    `--output-dir=${folder}`,
    ...tests,
  ];
  // Its exit code says that a test failed, which the report says by name.
  await control.exec(['sh', '-c', 'exec "$@" > "$0" 2>&1', join(folder, 'tests.log'), ...run], {
    timeoutMs: options.timeoutMs,
  });
  return readReport(readFileSync(join(folder, 'report.xml'), 'utf8'));
}

/** Reads JUnit as ginkgo writes it: without the entries of its set-up, and without tests that the focus leaves out. */
export function readReport(xml: string): Judgement {
  const verdicts = new Map<string, Verdict>();
  const failures = new Map<string, string>();
  for (const [, attributes = '', body = ''] of xml.matchAll(/<testcase ([^>]*?)(?:\/>|>([\s\S]*?)<\/testcase>)/g)) {
    const name = unescaped(/ ?name="([^"]*)"/.exec(attributes)?.[1] ?? '');
    if (!name.startsWith('[It] ')) continue;
    const status = /status="([a-z]+)"/.exec(attributes)?.[1];
    const reason = /<skipped message="([^"]*)"/.exec(body)?.[1];
    if (status === 'skipped' && reason === 'skipped') continue;
    const title = name.slice('[It] '.length);
    verdicts.set(title, status === 'passed' || status === 'skipped' ? status : 'failed');
    const message = /<(?:failure|error) message="([^"]*)"/.exec(body)?.[1];
    if (message !== undefined) failures.set(title, unescaped(message).split('\n')[0] ?? '');
  }
  return { verdicts, failures };
}

const unescaped = (text: string): string =>
  text
    .replaceAll('&#34;', '"')
    .replaceAll('&quot;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&#xA;', '\n')
    .replaceAll('&amp;', '&');
