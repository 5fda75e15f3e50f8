import { compareText, type Place, shortList } from '@sluice/netfilter';
import type { Violation, Violations } from './finding.ts';

/** What rules about input read of the objects that were rendered. No bundle has it: it changes no rule of a node. */
export interface ReviewedInput {
  readonly services: readonly InputService[];
  readonly endpoints: readonly InputEndpoint[];
  /** The condition `Ready` of Nodes that have one and are not ready, such as `False` or `Unknown`, by name. */
  readonly notReady: ReadonlyMap<string, string>;
}

interface InputService {
  /** `shop/web` */
  readonly service: string;
  /** Annotations that ask for what rules for packets cannot do. */
  readonly withoutEffect: readonly { readonly key: string; readonly why: string; readonly hint: string }[];
  readonly topologyKeys: readonly string[];
  /** @param path in the object */
  readonly place: (path: readonly string[]) => Place;
}

/** An endpoint that counts as ready. */
export interface InputEndpoint {
  readonly service: string;
  readonly address: string;
  readonly node: string;
  readonly place: Place;
}

/** Rules about input. */
export function checkInput(input: ReviewedInput): readonly Violation[] {
  return [...input.services.flatMap(annotations), ...input.services.flatMap(topologyKeys), ...notReady(input)];
}

/** ANNOTATION_WITHOUT_EFFECT */
const annotations = ({ service, withoutEffect, place }: InputService): readonly Violation[] =>
  withoutEffect.map(({ key, why, hint }) => ({
    code: 'ANNOTATION_WITHOUT_EFFECT',
    subject: service,
    message: `Cannot follow annotation ${key}: ${why}`,
    hint,
    ...inInput(place(['metadata', 'annotations', key])),
  }));

/** TOPOLOGY_KEYS */
function topologyKeys({ service, topologyKeys: keys, place }: InputService): Violations {
  if (keys.length === 0) return [];
  return {
    code: 'TOPOLOGY_KEYS',
    subject: service,
    message: `Cannot follow topologyKeys ${keys.join(', ')}: Kubernetes has removed the field`,
    hint: 'Use `trafficDistribution: PreferClose`, or `internalTrafficPolicy: Local` for the node alone',
    ...inInput(place(['spec', 'topologyKeys'])),
  };
}

/** ENDPOINT_NODE_NOT_READY: a finding for each Service and node. */
function notReady({ endpoints, notReady: nodes }: ReviewedInput): readonly Violation[] {
  const affected = endpoints.filter(({ node }) => nodes.has(node));
  const groups = [...Map.groupBy(affected, ({ service, node }) => `${service} ${node}`).values()];
  return groups.map((group) => {
    const { service, node, place } = group[0]!;
    const addresses = [...new Set(group.map(({ address }) => address))].toSorted(compareText);
    return {
      code: 'ENDPOINT_NODE_NOT_READY',
      subject: service,
      message: `Cannot rely on ${shortList(addresses, shownMax)}: node ${node} is not ready (condition Ready is ${nodes.get(node)})`,
      hint: `Find out why node ${node} is not ready; endpoints of pods become not ready by themselves, others have to be removed`,
      ...inInput(place),
    };
  });
}

/** Addresses that a message names. */
const shownMax = 3;

const inInput = ({ file, line }: Place): Pick<Violation, 'path' | 'line' | 'isInput'> => ({
  path: file,
  line,
  isInput: true,
});
