import type { Problem } from '@sluice/netfilter';
import { isMap, type Json, type KubeObject, listOf, mapOf } from '@sluice/renderer/render/model/kube.ts';
import { readObjects } from '@sluice/renderer/render/read/read.ts';
import type { ReadSlice } from '@sluice/renderer/render/read/slice.ts';
import { unsupportedIn } from '@sluice/renderer/render/read/unsupported-annotations.ts';
import type { InputEndpoint, ReviewedInput } from '../../policy/input.ts';

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
        textsOf(below(value['metadata'], 'annotations')),
        below(value['spec'], 'type') === 'LoadBalancer' &&
          listOf(below(value['spec'], 'loadBalancerSourceRanges')).length === 0,
      ),
      topologyKeys: listOf(below(value['spec'], 'topologyKeys')).filter((one) => typeof one === 'string'),
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
  for (const condition of listOf(below(value['status'], 'conditions')))
    if (below(condition, 'type') === 'Ready') {
      const status = below(condition, 'status');
      return status === 'True' || status === 'False' ? status : 'Unknown';
    }
  return undefined;
}

const below = (value: Json | undefined, key: string): Json | undefined =>
  isMap(value) && Object.hasOwn(value, key) ? value[key] : undefined;
const textsOf = (value: Json | undefined): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(mapOf(value)).filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  );
