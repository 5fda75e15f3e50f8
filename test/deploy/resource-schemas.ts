import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { execaSync } from 'execa';
import type { TestContext } from 'vitest';
import { parse } from 'yaml';
import { findGo } from '../parity/build.ts';
import { need, needSchemas } from './programs.ts';

/** Resources that operators define, out of their Go modules, which the module proxy has and this checkout has not. */
const operators = {
  'Prometheus’ operator': {
    module: 'github.com/prometheus-operator/prometheus-operator@v0.85.0',
    sum: 'h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=',
    files: ['servicemonitors', 'prometheusrules'].map(
      (plural) => `example/prometheus-operator-crd/monitoring.coreos.com_${plural}.yaml`,
    ),
  },
  'Argo CD': {
    module: 'github.com/argoproj/argo-cd/v3@v3.3.0',
    sum: 'h1:9UlruTd5cC/MyvorTXgAIblfZTy63MF5FYvvoAaUvwU=',
    files: ['manifests/crds/application-crd.yaml', 'manifests/crds/appproject-crd.yaml'],
  },
  'Flux’ sources': {
    module: 'github.com/fluxcd/source-controller@v1.7.3',
    sum: 'h1:gFfeBiNUgF0kFFGap/rrMeJqz+0Tod0ARENJO8w/UA8=',
    files: ['config/crd/bases/source.toolkit.fluxcd.io_gitrepositories.yaml'],
  },
  'Flux’ kustomizations': {
    module: 'github.com/fluxcd/kustomize-controller@v1.7.3',
    sum: 'h1:SzNnGn/4ObAPEHHleM5U7y/AKxKXph3Vj6ZhteeXw8M=',
    files: ['config/crd/bases/kustomize.toolkit.fluxcd.io_kustomizations.yaml'],
  },
  // Its resources are those of the controllers.
  'Flux’ command': {
    module: 'github.com/fluxcd/flux2/v2@v2.7.5',
    sum: 'h1:pO1izlrIuCa+domvk0guJ0gaWoBbrNeKZ829jiRS4lA=',
    files: [],
  },
} as const;

type Operator = keyof typeof operators;

interface Resource {
  readonly spec: {
    readonly group: string;
    readonly names: { readonly kind: string };
    readonly versions: readonly { readonly name: string; readonly schema: { readonly openAPIV3Schema: object } }[];
  };
}

/** What kubeconform says of objects, with a summary, by the schemas of Kubernetes 1.37 and of operators. */
export async function judged(context: TestContext, text: string, of: readonly Operator[]): Promise<string> {
  const kubeconform = await need(context, 'kubeconform');
  const schemas = needSchemas(context);
  const cache = dirname(dirname(schemas));
  mkdirSync(cache, { recursive: true });
  const all = [schemas, ...of.map((operator) => needSchemasOf(context, operator, cache))];
  const locations = all.flatMap((one) => ['-schema-location', one]);
  const args = ['-strict', '-summary', ...locations, '-kubernetes-version', '1.37.0', '-'];
  return execaSync(kubeconform, args, { input: text, reject: false }).stdout;
}

/**
 * The location of an operator's schemas for kubeconform; no object may have other fields than they name. Skips the test by name without
 * Go, or where the module cannot be fetched.
 * @param cache a folder that exists
 */
function needSchemasOf(context: TestContext, operator: Operator, cache: string): string {
  const { module } = operators[operator];
  const folder = join(cache, module.replaceAll(/[/@]/g, '-'));
  if (!existsSync(folder)) makeSchemas(folder, needModule(context, operator), operators[operator].files);
  return `${folder}/{{ .ResourceKind }}{{ .KindSuffix }}.json`;
}

/** The folder of an operator's module. Skips the test as above. */
export function needModule(context: TestContext, operator: Operator): string {
  const go = findGo();
  if (go === undefined) context.skip(`the module of ${operator} needs Go`);
  const { module, sum } = operators[operator];
  try {
    const found = execFileSync(go, ['mod', 'download', '-json', module], { encoding: 'utf8', stdio: 'pipe' });
    const { Dir, Sum } = JSON.parse(found) as { Dir: string; Sum: string };
    if (Sum !== sum) throw new Error(`${module} has the sum ${Sum}, not ${sum}`);
    return Dir;
  } catch (error) {
    context.skip(`the module of ${operator} cannot be fetched: ${(error as Error).message.split('\n', 1)[0]}`);
  }
}

function makeSchemas(folder: string, module: string, files: readonly string[]): void {
  const work = `${folder}-${process.pid}`;
  mkdirSync(work, { recursive: true });
  for (const file of files) {
    const { spec } = parse(readFileSync(join(module, file), 'utf8')) as Resource;
    for (const { name, schema } of spec.versions)
      writeFileSync(
        join(work, `${spec.names.kind.toLowerCase()}-${spec.group.split('.')[0]}-${name}.json`),
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
