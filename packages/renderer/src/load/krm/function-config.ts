import type { Problem } from '@sluice/bundle';
import type { Json } from '../../render/kube.ts';
import { findingProblem } from '../config/problems.ts';
import { fields, flag, text } from '../schema/proxy.ts';
import { checkSchema, type Schema } from '../schema/schema.ts';
import { own, type ResourceList } from './resource-list.ts';

/** What the functionConfig asks of the function. Paths are as a person wrote them, from where the function runs. */
export interface FunctionConfig {
  /** The bundle directory; absent: the Services are rendered and nothing is written. */
  readonly output?: string;
  /** The SluiceConfig. */
  readonly config?: string;
  /** Snapshots over which the items are laid. */
  readonly base?: readonly string[];
  /** Says whether `output` is what would be written, and writes nothing. */
  readonly check?: boolean;
  /** Warnings are errors. */
  readonly strict?: boolean;
}

const apiVersion = 'sluice.dev/v1alpha1';
const kind = 'SluiceFunction';

const path = (description: string): Schema => text(description, { pattern: '\\S' });

/** Other keys are the orchestrator's: metadata, with annotations that say how the function is run. */
const schema: Schema = {
  description: 'The functionConfig of sluice krm.',
  type: 'object',
  required: ['apiVersion', 'kind'],
  properties: {
    apiVersion: { type: 'string', const: apiVersion },
    kind: { type: 'string', const: kind },
    spec: fields('What the function does.', {
      output: path('The bundle directory. Left out: nothing is written.'),
      config: path('The SluiceConfig.'),
      base: { type: 'array', items: path('A snapshot over which the items are laid.'), minItems: 1 },
      check: flag('Only say whether the bundle directory is what would be written.'),
      strict: flag('Take warnings for errors.'),
    }),
  },
};

/** Reads the functionConfig; without one everything is by default. With a problem it must not be used. */
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
