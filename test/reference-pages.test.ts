import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type JsonSchema, matches, readWaveSpecs, wavesSchema } from '@sluice/bundle';
import { problemCodes } from '@sluice/netfilter';
import type { Command } from 'commander';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { readConfig } from '../packages/applier/src/config.ts';
import { alarms } from '../packages/applier/src/observe/status/alarms.ts';
import { buildProgram as buildSluiced } from '../packages/applier/src/program.ts';
import type { Status } from '../packages/applier/src/observe/status/status.ts';
import { ownCommands } from '../packages/cli/src/program.ts';
import { buildProgram as buildSluice } from '../packages/sluice/src/program.ts';
import { Metrics } from '../packages/renderer/src/commands/watch/metrics.ts';
import type { Schema } from '../packages/renderer/src/load/schema/schema.ts';
import { sluiceSchema } from '../packages/renderer/src/load/schema/sluice.ts';
import { indexPage } from '../tools/docs/assemble.ts';
import { commandPage } from '../tools/docs/command-page.ts';
import { schemaFiles, sluicedSchema } from '../tools/docs/config-schema.ts';
import { chartPage, sluicedYamlPage, sluiceYamlPage, sysctlPage } from '../tools/docs/config-pages.ts';
import { exitDetails } from '../tools/docs/exit-details.ts';
import { alarmPage, kubeProxyMetricPage, type Metric, metricPage } from '../tools/docs/operations-pages.ts';
import { commands } from './commands.fixture.ts';
import { freshStatus } from './status.fixture.ts';

const docs = join(import.meta.dirname, '..', 'docs');
const sluicedYaml = readFileSync(join(docs, 'sluiced.yaml'), 'utf8');

const read = (...path: readonly string[]): string => readFileSync(join(docs, '..', ...path), 'utf8');
const valuesSchema = JSON.parse(read('deploy/chart/values.schema.json')) as Schema;

const status = freshStatus();

/** Label names are in no type of prom-client. */
const metricsOf = ({ registry }: Pick<Status, 'registry'>): readonly Metric[] =>
  registry.getMetricsAsArray() as unknown as readonly Metric[];

const pages: Readonly<Record<string, string>> = {
  'README.md': indexPage(),
  'reference/sluice.md': commandPage(buildSluice(), exitDetails.sluice),
  'reference/sluiced.md': commandPage(buildSluiced(), exitDetails.sluiced),
  'reference/sluice-yaml.md': sluiceYamlPage(sluiceSchema),
  'reference/sluiced-yaml.md': sluicedYamlPage(sluicedYaml),
  ...Object.fromEntries(Object.entries(schemaFiles(sluicedYaml)).map(([name, text]) => [`schema/${name}`, text])),
  'reference/sysctls.md': sysctlPage(),
  'reference/alarms.md': alarmPage(),
  'kube-proxy-metrics.md': kubeProxyMetricPage(),
  '../deploy/chart/README.md': chartPage(read('deploy/chart/values.yaml'), valuesSchema),
  // Helm reads no file outside of a chart.
  '../deploy/chart/files/rules.yaml': read('integrations/prometheus/rules.yaml'),
  '../deploy/chart/files/fleet.json': read('integrations/grafana/fleet.json'),
  '../deploy/chart/files/node.json': read('integrations/grafana/node.json'),
  'reference/metrics.md': metricPage(metricsOf(status), metricsOf(new Metrics())),
};

/** UPDATE_DOCS=1 writes the pages again. */
if (process.env['UPDATE_DOCS'] === '1') {
  mkdirSync(join(docs, 'reference'), { recursive: true });
  for (const [name, text] of Object.entries(pages)) writeFileSync(join(docs, name), text);
}

test.each(Object.entries(pages))('docs/%s says what the code says', (name, text) => {
  expect(readFileSync(join(docs, name), 'utf8')).toBe(text);
});

/** Hidden commands have no help. */
const isShown = ({ command }: (typeof commands)[number]): boolean =>
  command.parent!.createHelp().visibleCommands(command.parent!).includes(command);

describe('the pages are whole', () => {
  test.each(commands.filter(isShown))('$title has a section', ({ name, title }) => {
    expect(pages[`reference/${name}.md`]).toContain(`\n## ${title}\n`);
  });

  test('each program knows the commands that only the other one has', () => {
    const namesOf = (program: Command): readonly string[] => program.commands.map((command) => command.name());
    const [sluice, sluiced] = [namesOf(buildSluice()), namesOf(buildSluiced())];
    expect(ownCommands.sluice.split(' ')).toEqual(sluice.filter((name) => !sluiced.includes(name)));
    expect(ownCommands.sluiced.split(' ')).toEqual(sluiced.filter((name) => !sluice.includes(name)));
  });

  test('every field of sluiced.yaml at the left margin has a section', () => {
    const fields = [...sluicedYaml.matchAll(/^(?:# )?(\w+):(?= \S+$|$)/gm)].map(([, field]) => field ?? '');
    const own = fields.filter((field) => !['apiVersion', 'kind'].includes(field));
    expect(own.length).toBeGreaterThan(15);
    for (const field of own) expect(pages['reference/sluiced-yaml.md']).toContain(`\n## ${field}\n`);
  });

  test('every metric that /metrics prints has a row', async () => {
    for (const { registry } of [status, new Metrics()]) {
      const printed = [...(await registry.metrics()).matchAll(/^# HELP (\S+)/gm)].map(([, name]) => name);
      expect(printed.length).toBeGreaterThan(10);
      for (const name of printed) expect(pages['reference/metrics.md']).toContain(`| \`${name}\` |`);
    }
  });
});

test('an alarm that has the code of a problem is in both tables, and no other code is', () => {
  const shared = Object.keys(alarms).filter((code) => code in problemCodes);
  expect(shared).toEqual(['NODE_HELD', 'RELEASE_EXPIRED', 'RELEASE_SIGNERS_CHANGED', 'REMOVAL_HELD']);
});

/** A config as its reader takes it, and as its schema for editors. */
const readers = {
  SluicedConfig: {
    schema: sluicedSchema(sluicedYaml),
    accepts: (text: string) => !('problems' in readConfig('sluiced.yaml', text)),
    inner: 'probation: { secnds: 5 }\n',
  },
  Waves: {
    schema: wavesSchema as JsonSchema,
    accepts: (text: string) => !('code' in readWaveSpecs('waves.yaml', text)),
    inner: '  - { name: last, nodes: rest, node: a }\n',
  },
} as const;

const pattern = /^apiVersion: sluice\.dev\/v1alpha1\nkind: (SluicedConfig|Waves)\n[^]*?(?=^(?:END|```)|$(?![^]))/gm;
const sources = [
  'docs/sluiced.yaml',
  'docs/runbooks/first-install.md',
  'docs/runbooks/air-gapped.md',
  'packages/bundle/README.md',
];
const documented = sources.flatMap((path) =>
  [...read(path).matchAll(pattern)].map(([text, kind]) => ({ path, text, kind: kind as keyof typeof readers })),
);

test.each(documented)('the $kind in $path is what reader and schema accept, and another field is not', (one) => {
  const { schema, accepts, inner } = readers[one.kind];
  const text = one.text.replaceAll('$(hostname)', 'node-a');
  const both = (more: string) => [accepts(text + more), matches(schema, parse(text + more))];
  expect(both('')).toEqual([true, true]);
  expect(both('nodee: x\n')).toEqual([false, false]);
  expect(both(one.text.includes('\nprobation:') ? 'probe: []\n' : inner)).toEqual([false, false]);
});

test('each source has a documented config', () => {
  expect(new Set(documented.map(({ path }) => path))).toEqual(new Set(sources));
});
