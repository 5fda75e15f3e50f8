import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'vitest';
import { parse } from 'yaml';
import { findGo } from '../parity/build.ts';

/** The resources of Prometheus' operator, out of its Go module, which the module proxy has and this checkout has not. */
const operator = {
  module: 'github.com/prometheus-operator/prometheus-operator@v0.85.0',
  sum: 'h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=',
} as const;

interface Resource {
  readonly spec: {
    readonly names: { readonly kind: string };
    readonly versions: readonly { readonly name: string; readonly schema: { readonly openAPIV3Schema: object } }[];
  };
}

/**
 * The location of schemas of ServiceMonitor and PrometheusRule for kubeconform; no object may have other fields than they name. Skips the
 * test by name without Go, or where the module cannot be fetched.
 * @param cache a folder that exists
 */
export function needOperatorSchemas(context: TestContext, cache: string): string {
  const folder = join(cache, `operator-${operator.module.split('@')[1] ?? ''}`);
  const go = findGo();
  if (go === undefined) context.skip('the schemas of Prometheus’ operator need Go');
  try {
    if (!existsSync(folder)) makeSchemas(go, folder);
  } catch (error) {
    context.skip(`the schemas of Prometheus’ operator cannot be made: ${(error as Error).message.split('\n', 1)[0]}`);
  }
  return `${folder}/{{ .ResourceKind }}{{ .KindSuffix }}.json`;
}

function makeSchemas(go: string, folder: string): void {
  const found = execFileSync(go, ['mod', 'download', '-json', operator.module], { encoding: 'utf8', stdio: 'pipe' });
  const { Dir, Sum } = JSON.parse(found) as { Dir: string; Sum: string };
  if (Sum !== operator.sum) throw new Error(`${operator.module} has the sum ${Sum}, not ${operator.sum}`);
  const work = `${folder}-${process.pid}`;
  mkdirSync(work, { recursive: true });
  for (const plural of ['servicemonitors', 'prometheusrules']) {
    const path = join(Dir, 'example/prometheus-operator-crd', `monitoring.coreos.com_${plural}.yaml`);
    const { spec } = parse(readFileSync(path, 'utf8')) as Resource;
    for (const { name, schema } of spec.versions)
      writeFileSync(
        join(work, `${spec.names.kind.toLowerCase()}-monitoring-${name}.json`),
        JSON.stringify(closed(schema.openAPIV3Schema)),
      );
  }
  if (!existsSync(folder)) renameSync(work, folder);
}

/** Objects that name their fields take no others. */
function closed(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(closed);
  if (typeof schema !== 'object' || schema === null) return schema;
  const all = Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, closed(value)]));
  const isOpen = !('properties' in all) || 'additionalProperties' in all || typeof all['type'] !== 'string';
  return isOpen || all['x-kubernetes-preserve-unknown-fields'] === true ? all : { ...all, additionalProperties: false };
}
