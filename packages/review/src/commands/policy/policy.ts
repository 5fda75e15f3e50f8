import { type PolicyFormat, printPolicy } from '../../emit/policy/print.ts';
import { exitCodes } from '@sluice/renderer/exit.ts';
import { childOf } from '@sluice/renderer/load/config/settings.ts';
import { load } from '@sluice/renderer/load/load.ts';
import { readSources } from '@sluice/renderer/load/sources.ts';
import type { ReviewedInput, InputEndpoint } from '../../policy/input.ts';
import { checkPolicy, failing } from '../../policy/policy.ts';
import { print, progress } from '@sluice/renderer/commands/output/progress.ts';
import { dayOf } from '@sluice/renderer/commands/input/day.ts';
import { policyIn } from '../input/settings.ts';
import { bundleAt } from '@sluice/renderer/commands/bundle/bundle-at.ts';
import { joinProblems } from '@sluice/renderer/commands/failure/problems.ts';
import { emptyInput } from '@sluice/renderer/commands/input/empty.ts';
import { type Problem, Stopped } from '@sluice/netfilter';
import { type Json, type KubeObject, listOf, mapOf } from '@sluice/renderer/render/model/kube.ts';
import { readObjects } from '@sluice/renderer/render/read/read.ts';
import type { ReadSlice } from '@sluice/renderer/render/read/slice.ts';
import { unsupportedIn } from '@sluice/renderer/render/read/unsupported-annotations.ts';

interface PolicyOptions {
  readonly output: PolicyFormat;
  readonly base?: string;
  readonly filename?: readonly string[];
  readonly recursive?: boolean;
  readonly config?: string;
  readonly strict?: boolean;
  /** `2026-11-21`; default: the current day in UTC. */
  readonly today?: string;
}

/** `sluice policy`: checks a bundle, or a change to it, against the policy of the config. */
export async function policyCommand(dir: string, options: PolicyOptions): Promise<number> {
  const today = dayOf(options.today);
  const settings = policyIn(options.config);
  progress(`reading ${dir}`);
  const files = bundleAt(dir);
  const base = options.base === undefined ? {} : { base: bundleAt(options.base) };
  const input = options.filename && (await readReviewed(options.filename, options.recursive ?? false));
  progress('checking the policy');
  const result = checkPolicy({ files, ...base, ...(input && { input }), settings, today });
  const config = options.config === undefined ? {} : { config: options.config };
  print(printPolicy({ result, bundle: dir, ...config }, options.output));
  return failing(result, options.strict ?? false).length === 0 ? exitCodes.done : exitCodes.different;
}

/** Reads the objects of `-f`. @throws Stopped when they cannot be read */
async function readReviewed(filename: readonly string[], recursive: boolean): Promise<ReviewedInput> {
  const read = emptyInput(await readSources(filename, { recursive, stdin: process.stdin }), '-f', recursive);
  const { objects, problems } = load(read.sources);
  const found = joinProblems(read.problems, problems).filter(({ level }) => level === 'error');
  if (found.length > 0) throw new Stopped(found);
  return reviewedInput(objects);
}

/**
 * What rules about input read of objects. Services and slices that are invalid are left out: `render` and `validate` report them.
 */
export function reviewedInput(objects: readonly KubeObject[]): ReviewedInput {
  const ignored: Problem[] = [];
  const { services, slices, nodes } = readObjects(objects, ignored);
  return {
    services: services.map(({ key, object: { value, origin } }) => ({
      service: key,
      withoutEffect: unsupportedIn(
        textsOf(childOf(value['metadata'], 'annotations')),
        childOf(value['spec'], 'type') === 'LoadBalancer' &&
          listOf(childOf(value['spec'], 'loadBalancerSourceRanges')).length === 0,
      ),
      topologyKeys: listOf(childOf(value['spec'], 'topologyKeys')).filter((one) => typeof one === 'string'),
      place: (path) => origin.place(path),
    })),
    endpoints: slices.flatMap(endpointsOf),
    notReady: new Map(
      nodes.flatMap(({ name, object }) => {
        const status = object && readyOf(object);
        return status === undefined || status === 'True' ? [] : [[name, status] as const];
      }),
    ),
  };
}

function endpointsOf({ service, object, kind, parts }: ReadSlice): readonly InputEndpoint[] {
  return parts.flatMap(({ endpoints, path }) =>
    endpoints.flatMap(({ address, nodeName, ready }, index) => {
      if (!ready || nodeName === undefined || service === '') return [];
      const at = kind === 'EndpointSlice' ? ['endpoints', index] : path;
      return [{ service, address, node: nodeName, place: object.origin.place(at) }];
    }),
  );
}

/** The status of the condition `Ready`, `True`, `False` or `Unknown`; undefined without one, as in a manifest. */
function readyOf({ value }: KubeObject): string | undefined {
  for (const condition of listOf(childOf(value['status'], 'conditions')))
    if (childOf(condition, 'type') === 'Ready') {
      const status = childOf(condition, 'status');
      return status === 'True' || status === 'False' ? status : 'Unknown';
    }
  return undefined;
}

const textsOf = (value: Json | undefined): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(mapOf(value)).filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  );
