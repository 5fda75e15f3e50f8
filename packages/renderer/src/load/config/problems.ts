import { type Level, type Place, type Problem, type ProblemCode, shortList } from '@sluice/netfilter';
import type { Path } from '../../render/model/kube.ts';
import type { TextOrigin } from './text.ts';
import { type SchemaFinding, printPath } from '../schema/schema.ts';

const codes = {
  type: 'CONFIG_INVALID',
  value: 'CONFIG_INVALID',
  missing: 'CONFIG_INVALID',
  unknown: 'CONFIG_INVALID',
  address: 'ADDRESS_INVALID',
  unsupported: 'CONFIG_UNSUPPORTED',
} as const satisfies Record<SchemaFinding['kind'], ProblemCode>;

/** Converts a finding of the schema to a problem with its place. */
export function findingProblem(
  finding: SchemaFinding,
  origin: TextOrigin,
  object: string,
  level: Level = 'error',
): Problem {
  const at = finding.about === 'key' ? origin.keyPlace(finding.path) : origin.place(finding.path);
  return { ...configProblem(at, object, finding.path, finding.why, finding.hint), code: codes[finding.kind], level };
}

/** "Cannot follow ⟨fields⟩: ⟨why⟩" at the place of the first, `CONFIG_IGNORED`. */
export function ignoredProblem(at: Place, object: string, paths: readonly Path[], why: string, hint: string): Problem {
  const message = `Cannot follow ${shortList(paths.map(printPath))}: ${why}`;
  return { code: 'CONFIG_IGNORED', level: 'warning', at, object, message, hint };
}

/** "Cannot use profiles[0].mode: ⟨why⟩" at a place, `CONFIG_INVALID`. */
export function configProblem(at: Place, object: string, path: Path, why: string, hint: string): Problem {
  const what = path.length === 0 ? 'it' : printPath(path);
  return { code: 'CONFIG_INVALID', level: 'error', at, object, message: `Cannot use ${what}: ${why}`, hint };
}
