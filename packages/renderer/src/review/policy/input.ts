import { compareText, type Place } from '@sluice/netfilter';
import type { Violation } from './finding.ts';

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
  readonly annotations: Readonly<Record<string, string>>;
  readonly topologyKeys: readonly string[];
  /** Of type LoadBalancer, without `loadBalancerSourceRanges`. */
  readonly isOpenBalancer: boolean;
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

/** Annotations that ask for what rules for packets cannot do. */
interface Unsupported {
  readonly key: RegExp;
  readonly value: RegExp;
  readonly why: string;
  readonly hint: string;
  /** Only where nothing else restricts the clients of a load balancer. */
  readonly ofOpenBalancers?: boolean;
}

const cookies = {
  why: 'rules for packets see no cookies',
  hint: 'Use `sessionAffinity: ClientIP`, or let clients come through a proxy for HTTP that chooses the endpoint itself',
} as const;
const isOn = /^(?!(?:false|off|no|0)?$)/i;

/**
 * Who may connect: the ranges of Kubernetes' old annotation and of Azure, DigitalOcean and AWS; firewalls, access lists and security groups
 * of Alibaba, Huawei, Linode, Vultr, Civo, Tencent, Oracle and AWS. kube-proxy reads none of them either.
 */
const restriction =
  /(?:^|[/.-])(?:load-?balancer-source-ranges|source-ranges|allowed-(?:ip-ranges|service-tags)|(?:allow|deny)-rules|firewall-(?:acl|id|rules)|acl-(?:id|status)|(?:network-)?security-groups?(?:-prefix-lists)?)$/;

/**
 * Session affinity by cookie of ingress controllers that read it from Services (Traefik, HAProxy, ingress-nginx) and of DigitalOcean's load
 * balancers, and Tencent's direct access to pods.
 */
const unsupported: readonly Unsupported[] = [
  {
    key: restriction,
    value: /\S/,
    why: 'it restricts nothing on nodes, so that every client that reaches one is admitted; a load balancer applies it at most',
    hint: 'Set `spec.loadBalancerSourceRanges`, which nodes follow',
    ofOpenBalancers: true,
  },
  { key: /\/service\.sticky(?:\.cookie)?$/, value: isOn, ...cookies },
  { key: /\/cookie-persistence(?:-no-dynamic)?$/, value: isOn, ...cookies },
  { key: /^(?:[a-z0-9.-]*ingress[a-z0-9.-]*)\/affinity$/, value: /^(?:cookie|true)$/i, ...cookies },
  { key: /\/[a-z0-9-]*sticky-sessions-type$/, value: /^cookies?$/i, ...cookies },
  {
    key: /\/direct-access$/,
    value: isOn,
    why: 'a load balancer that addresses pods directly bypasses the rules of nodes, and one that cannot uses node ports',
    hint: 'Remove it, or set `allocateLoadBalancerNodePorts: false` so that no traffic needs the nodes',
  },
];

/** ANNOTATION_WITHOUT_EFFECT */
function annotations({ service, annotations: all, isOpenBalancer, place }: InputService): readonly Violation[] {
  const keys = Object.keys(all).toSorted(compareText);
  return keys.flatMap((key) => {
    const found = unsupported.find((one) => one.key.test(key) && one.value.test(all[key] ?? ''));
    if (found?.ofOpenBalancers === true && !isOpenBalancer) return [];
    if (found === undefined) return [];
    return [
      {
        code: 'ANNOTATION_WITHOUT_EFFECT' as const,
        subject: service,
        message: `Cannot follow annotation ${key}: ${found.why}`,
        hint: found.hint,
        ...inInput(place(['metadata', 'annotations', key])),
      },
    ];
  });
}

/** TOPOLOGY_KEYS */
function topologyKeys({ service, topologyKeys: keys, place }: InputService): readonly Violation[] {
  if (keys.length === 0) return [];
  return [
    {
      code: 'TOPOLOGY_KEYS',
      subject: service,
      message: `Cannot follow topologyKeys ${keys.join(', ')}: Kubernetes has removed the field`,
      hint: 'Use `trafficDistribution: PreferClose`, or `internalTrafficPolicy: Local` for the node alone',
      ...inInput(place(['spec', 'topologyKeys'])),
    },
  ];
}

/** ENDPOINT_NODE_NOT_READY: a finding for each Service and node. */
function notReady({ endpoints, notReady: nodes }: ReviewedInput): readonly Violation[] {
  const affected = endpoints.filter(({ node }) => nodes.has(node));
  const groups = [...Map.groupBy(affected, ({ service, node }) => `${service} ${node}`).values()];
  return groups.map((group) => {
    const { service, node, place } = group[0]!;
    const addresses = [...new Set(group.map(({ address }) => address))].toSorted(compareText);
    const more = addresses.length > shownMax ? ` and ${addresses.length - shownMax} more` : '';
    return {
      code: 'ENDPOINT_NODE_NOT_READY',
      subject: service,
      message: `Cannot rely on ${addresses.slice(0, shownMax).join(', ')}${more}: node ${node} is not ready (condition Ready is ${nodes.get(node)})`,
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
