import type { Problem } from '@sluice/netfilter';
import type { Json } from '../../render/model/kube.ts';
import { findingProblem } from '../config/problems.ts';
import { fields, flag, text } from '../schema/proxy.ts';
import { checkSchema, type Schema } from '../schema/schema.ts';
import { own, type ResourceList } from './resource-list.ts';

/** The `spec` of a functionConfig. Paths are relative to the working directory of the function. */
export interface FunctionConfig {
  /** The bundle directory; absent: render without writing. */
  readonly output?: string;
  /** The SluiceConfig. */
  readonly config?: string;
  /** Snapshots, the base of the items. */
  readonly base?: readonly string[];
  /** Check whether `output` is up to date, without writing. */
  readonly check?: boolean;
  /** Treat warnings as errors. */
  readonly strict?: boolean;
}

const apiVersion = 'sluice.dev/v1alpha1';
const kind = 'SluiceFunction';

const path = (description: string): Schema => text(description, { pattern: '\\S' });

/** Other keys belong to the orchestrator: metadata, with annotations on how to run the function. */
const schema: Schema = {
  description: 'The functionConfig of sluice krm.',
  type: 'object',
  required: ['apiVersion', 'kind'],
  properties: {
    apiVersion: { type: 'string', const: apiVersion },
    kind: { type: 'string', const: kind },
    spec: fields('What the function does.', {
      output: path('The bundle directory. Default: nothing is written.'),
      config: path('The SluiceConfig.'),
      base: { type: 'array', items: path('A snapshot, the base of the items.'), minItems: 1 },
      check: flag('Only check whether the bundle directory is up to date.'),
      strict: flag('Treat warnings as errors.'),
    }),
  },
};

/** Reads the functionConfig, or the defaults without one. After a problem it must not be used. */
export function readFunctionConfig(list: ResourceList): { config: FunctionConfig; problems: readonly Problem[] } {
  if (list.functionConfig === undefined) return { config: {}, problems: [] };
  const at = (below: readonly (string | number)[]) => list.place(['functionConfig', ...below]);
  const problems = checkSchema(schema, list.functionConfig, { nullIsUnset: true }).map((finding) =>
    findingProblem(finding, { place: at, keyPlace: at }, 'functionConfig'),
  );
  if (problems.length > 0) return { config: {}, problems };
  const spec: Json = own(list.functionConfig, 'spec') ?? {};
  const set = Object.entries(spec).filter(([, value]) => value !== null);
  return { config: Object.fromEntries(set) as FunctionConfig, problems };
}
