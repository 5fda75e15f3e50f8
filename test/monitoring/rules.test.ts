// @module-tag test
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { alarms, formerAlarmCodes } from '../../packages/applier/src/observe/status/alarms.ts';
import { Metrics } from '../../packages/renderer/src/commands/watch/metrics.ts';
import { dashboardQueries, dashboards } from './dashboards.ts';
import { faults } from './faults.ts';
import { commandOf, sections } from './pages.ts';
import { alerts, needPrometheus, rulesFile } from './prometheus.ts';
import { runUnitTest, unitTests, watchFaults } from './watch-faults.ts';
import { freshStatus } from '../status.fixture.ts';

const names = alerts.map(({ alert }) => alert);

test('promtool takes the rules', (context) => {
  const promtool = needPrometheus(context, 'promtool');
  expect(execFileSync(promtool, ['check', 'rules', rulesFile], { encoding: 'utf8' })).toContain(
    `SUCCESS: ${alerts.length} rules found`,
  );
});

test('every alert has a section of the page, which has its severity, and no section is without its alert', () => {
  expect([...sections.keys()]).toEqual(names);
  for (const { alert, labels, annotations } of alerts) {
    expect(sections.get(alert)).toContain(`Severity: ${labels.severity}.`);
    expect(annotations.runbook_url).toBe(`file:///usr/share/doc/sluice/alerts.md#${alert.toLowerCase()}`);
  }
});

test.for(unitTests)(
  'promtool: $alert fires for the series that raise it, and not for others',
  ({ alert, raises, silent }, context) => {
    const promtool = needPrometheus(context, 'promtool');
    const file = join(mkdtempSync(join(tmpdir(), 'sluice-promtool-')), 'test.yaml');
    try {
      const { labels, annotations } = alerts.find((one) => one.alert === alert)!;
      const summary = annotations.summary.replace('{{ $labels.job }}', 'sluiced');
      const expected = { exp_labels: { ...labels, job: 'sluiced' }, exp_annotations: { ...annotations, summary } };
      expect(runUnitTest(promtool, file, rulesFile, alert, raises, [expected])).toContain('SUCCESS');
      expect(runUnitTest(promtool, file, rulesFile, alert, silent, [])).toContain('SUCCESS');
      expect(() => runUnitTest(promtool, file, rulesFile, alert, silent, [expected])).toThrow('Command failed');
    } finally {
      rmSync(dirname(file), { recursive: true });
    }
  },
);

test('every alert has its fault', () => {
  const tested = [...faults, ...watchFaults, ...unitTests].map(({ alert }) => alert);
  expect(tested.toSorted()).toEqual(names.toSorted());
});

test('alerts about nodes say with which command to look', () => {
  const ofNodes = names.filter((name) => !name.startsWith('SluiceWatch'));
  expect(ofNodes.filter((name) => commandOf(name) === undefined)).toEqual([]);
});

/** The alerts of a code: what Prometheus, which anchors regular expressions, finds for `sluice_alarm`. */
function alertsOf(code: string): readonly string[] {
  return alerts
    .filter(({ expr }) => {
      const [first] = [...expr.matchAll(/sluice_alarm\{code(=~|!~|=)"([^"]+)"\}/g)];
      const isIn = first !== undefined && new RegExp(`^(?:${first[2]})$`).test(code);
      return first !== undefined && (first[1] === '!~' ? !isIn : isIn);
    })
    .map(({ alert }) => alert);
}

test('every alarm has one alert, and the code of any problem that of a refused bundle', () => {
  const elsewhere: Readonly<Record<string, readonly string[]>> = {
    // Each has an alert on another metric.
    NO_GENERATION: [],
    RELEASE_EXPIRED: [],
    CONNTRACK_NEARLY_FULL: [],
    BUNDLE_ABSENT: ['SluiceBundleRefused'],
  };
  const ofAlarms = Object.keys(alarms).filter((code) => !(code in elsewhere));
  const lost = ofAlarms.filter((code) => alertsOf(code).length !== 1 || alertsOf(code).includes('SluiceBundleRefused'));
  expect(lost).toEqual([]);
  expect(Object.keys(elsewhere).map(alertsOf)).toEqual(Object.values(elsewhere));
  for (const former of Object.values(formerAlarmCodes)) expect(alertsOf(former)).toEqual([]);
  expect(alertsOf('BUNDLE_QUARANTINED')).toEqual(['SluiceRolledBack']);
  expect(alertsOf('BUNDLE_INCOMPLETE')).toEqual(['SluiceBundleRefused']);
});

/** The metrics of both programs. */
function metricNames(): ReadonlySet<string> {
  const status = freshStatus();
  const all = [status.registry, new Metrics().registry].flatMap((registry) => registry.getMetricsAsArray());
  return new Set(all.map(({ name }) => name));
}

test('rules and dashboards ask for metrics that there are', () => {
  const known = metricNames();
  const asked = [...alerts.map(({ expr }) => expr), ...dashboardQueries().map(({ expr }) => expr)].flatMap((expr) => [
    ...expr.matchAll(/\b(?:sluice|kubeproxy)_[a-z_]+/g),
  ]);
  const unknown = asked.map(([name]) => name.replace(/_(?:bucket|sum|count)$/, '')).filter((name) => !known.has(name));
  expect(asked.length).toBeGreaterThan(30);
  expect(unknown).toEqual([]);
});

test('no panel of a dashboard covers another one', () => {
  for (const { panels } of Object.values(dashboards)) {
    const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, at) => `${x + (at % w)} ${y + Math.floor(at / w)}`),
    );
    expect(new Set(cells).size).toBe(cells.length);
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
  }
});

test('the rules have no other jobs than the monitors and the README', () => {
  const folder = join(import.meta.dirname, '..', '..', 'integrations', 'prometheus');
  const jobs = (name: string): ReadonlySet<string> =>
    new Set(
      [...readFileSync(join(folder, name), 'utf8').matchAll(/\b(?:job="|job_name: |app: )([a-z-]+)/g)].map(
        ([, job]) => job!,
      ),
    );
  expect(jobs('rules.yaml')).toEqual(jobs('README.md'));
  expect(jobs('servicemonitor.yaml')).toEqual(jobs('README.md'));
});
