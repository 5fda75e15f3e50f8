import { type Alarm, alarms, formerAlarmCodes } from '../../packages/applier/src/observe/status/alarms.ts';
import { kubeProxyMetrics, type MetricAnswer } from './kube-proxy-metrics.ts';
import { cell } from './markdown.ts';

/** The page of all alarms. */
export function alarmPage(): string {
  return `# Alarms

An alarm is open while something is wrong on a node. \`sluiced status\` prints it with its reason, \`/status\` has it in \`alarms\`, and the metric [\`sluice_alarm\`](metrics.md#sluiced) is 1 for its code.
No alarm removes a rule. A code never changes its meaning and is never used again for another alarm.

## The rules may be wrong

The rules in the kernel are not known to be those of the active generation: \`/healthz\` answers 503 until the cause is gone.

${alarmTable(({ isUnhealthy }) => isUnhealthy === true)}
## Something else is missing

The rules are right. The alarm ends when its cause is gone.

${alarmTable(({ isUnhealthy, ends }) => isUnhealthy !== true && ends === 'cause')}
## A bundle was not taken

The active generation stays. The alarm ends when a bundle is taken, or when the directory is what it was before.

${alarmTable(({ ends }) => ends === 'bundle')}
Any other code is that of the [problem](../problems.md) for which the bundle was refused, such as \`BUNDLE_INCOMPLETE\` or \`NODE_CANNOT_REHEARSE\`.
`;
}

function alarmTable(isOfKind: (alarm: Alarm) => boolean): string {
  const rows = Object.entries<Alarm>(alarms)
    .filter(([, alarm]) => isOfKind(alarm))
    .map(([code, { meaning, next }]) => `| ${codesOf(code)} | ${cell(meaning)} | ${cell(next)} |\n`);
  return `| code | means | what to do |\n|---|---|---|\n${rows.join('')}`;
}

/** A renamed alarm is raised under its former code, too. */
function codesOf(code: string): string {
  const former = (formerAlarmCodes as Readonly<Record<string, string>>)[code];
  return former === undefined ? `\`${code}\`` : `\`${code}\`, formerly \`${former}\``;
}

/** One metric of a program. */
export interface Metric {
  readonly name: string;
  readonly help: string;
  readonly type: string;
  readonly labelNames: readonly string[];
}

/** The page of the metrics of both programs. */
export function metricPage(sluiced: readonly Metric[], watch: readonly Metric[]): string {
  return `# Metrics

Both programs serve metrics in the format of Prometheus, at \`/metrics\`. A name never changes its meaning.

## sluiced

At the address \`listen\` of [sluiced.yaml](sluiced-yaml.md#listen). Metrics whose names begin with \`kubeproxy_\` mean what they mean in kube-proxy, so dashboards of kube-proxy go on.

${metricTable(sluiced)}
## sluice watch

At the address of \`--listen\`.

${metricTable(watch)}`;
}

function metricTable(metrics: readonly Metric[]): string {
  const rows = metrics.map(({ name, type, labelNames, help }) => {
    const labels = labelNames.filter((label) => label !== 'le').map((label) => `\`${label}\``);
    const kind = labels.length === 0 ? type : `${type} by ${labels.join(', ')}`;
    return `| \`${name}\` | ${kind} | ${cell(help)} |\n`;
  });
  return `| metric | type | is |\n|---|---|---|\n${rows.join('')}`;
}

/** The page of what becomes of each metric of kube-proxy. */
export function kubeProxyMetricPage(): string {
  const rows = Object.entries(kubeProxyMetrics).map(
    ([name, answer]) => `| \`${name}\` | **${answer.kind}**${cell(textOf(answer))} |\n`,
  );
  return `# Metrics of kube-proxy

Dashboards and alerts of kube-proxy 1.37 and 1.38 on nodes with Sluice. [metrics.md](reference/metrics.md) has every metric of Sluice.

- **same**: \`sluiced\` exports it under kube-proxy's name, with the same meaning and labels.
- **own**: another metric answers the question.
- **none**: nothing answers it, for the reason given.

Scrapers and load balancers find \`sluiced\` at kube-proxy's ports and paths where [sluiced.yaml](sluiced.yaml) has \`metricsBindAddress: 127.0.0.1:10249\` and \`healthzBindAddress: 0.0.0.0:10256\`. \`/healthz\` answers with kube-proxy's document and codes. It does not know that the cluster autoscaler is about to delete a node, which kube-proxy answers with 503.

| metric of kube-proxy | with Sluice |
|---|---|
${rows.join('')}`;
}

/** What follows the kind. */
function textOf(answer: MetricAnswer): string {
  switch (answer.kind) {
    case 'same':
      return answer.note === undefined ? '' : `: ${answer.note}`;
    case 'own':
      return `: \`${answer.name}\`${answer.note === undefined ? '' : `; ${answer.note}`}`;
    case 'none':
      return `: ${answer.why}`;
  }
}
