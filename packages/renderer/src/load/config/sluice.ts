import type { Place, Problem } from '@sluice/netfilter';
import { isMap, type Json, type JsonObject, listOf, mapOf, type Path } from '../../render/model/kube.ts';
import { findingProblem } from './problems.ts';
import { readText, type TextOrigin } from './text.ts';
import { checkSchema, type SchemaFinding, type Schema } from '../schema/schema.ts';
import { kubeProxySchema } from '../schema/kubeproxy.ts';
import { sluiceSchema } from '../schema/sluice.ts';

/** The parsed sluice.yaml with the findings of its schema. */
export interface SluiceText {
  readonly value: JsonObject;
  readonly origin: TextOrigin;
  /** Values with findings are not used. */
  readonly findings: readonly SchemaFinding[];
  readonly problems: readonly Problem[];
}

/** The object of problems in sluice.yaml. */
export const sluiceObject = 'SluiceConfig';

const nowhere: Place = { file: 'sluice.yaml', line: 1, column: 1 };

/** An empty config. */
export const noSluice: SluiceText = {
  value: {},
  origin: { place: () => nowhere, keyPlace: () => nowhere },
  findings: [],
  problems: [],
};

/** Parses sluice.yaml and checks it against its schema. */
export function readSluice(file: string, text: string): SluiceText {
  const read = readText(file, text);
  if (read.value === undefined) return { ...noSluice, origin: read.origin, problems: read.problems };
  const findings = checkSchema(sluiceSchema, read.value, { nullIsUnset: false }).map(explainKubeProxyField);
  const problems = findings.map((finding) => findingProblem(finding, read.origin, sluiceObject));
  return { value: mapOf(read.value), origin: read.origin, findings, problems };
}

/** A top-level field; undefined when it is absent or invalid. */
export function fieldOf(sluice: SluiceText, name: string): Json | undefined {
  const wrong = sluice.findings.some((finding) => finding.path[0] === name);
  return wrong || !Object.hasOwn(sluice.value, name) ? undefined : sluice.value[name];
}

/** The mappings in a top-level list, each with its index. */
export function entriesOf(sluice: SluiceText, name: string): readonly (readonly [number, JsonObject])[] {
  const list = listOf(Object.hasOwn(sluice.value, name) ? sluice.value[name] : undefined);
  return list.flatMap((item, index) => (isMap(item) ? [[index, item] as const] : []));
}

/** Whether there is a finding at or below `path`. */
export function isWrong(sluice: SluiceText, path: Path): boolean {
  return sluice.findings.some((finding) => path.every((part, index) => finding.path[index] === part));
}

/** Users copy kube-proxy's options into a profile: for those without an effect on rules, "unknown field" would be misleading. */
function explainKubeProxyField(finding: SchemaFinding): SchemaFinding {
  const [list, , ...below] = finding.path;
  if (finding.kind !== 'unknown' || list !== 'profiles' || !hasField(kubeProxySchema, below)) return finding;
  return {
    ...finding,
    why: 'it is a field of kube-proxy without an effect on rules',
    hint: 'Remove it here; in a KubeProxyConfiguration it is accepted',
  };
}

function hasField(schema: Schema, path: Path): boolean {
  const [head, ...below] = path;
  if (head === undefined) return true;
  const next =
    typeof head === 'string' && Object.hasOwn(schema.properties ?? {}, head) ? schema.properties?.[head] : undefined;
  return next !== undefined && hasField(next, below);
}
