import { compareText } from '@sluice/netfilter';

/** An annotation that asks for what rules for packets cannot do. */
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
  {
    key: /^service\.cilium\.io\/src-ranges-policy$/,
    value: /^deny$/i,
    why: 'nodes admit the clients of `loadBalancerSourceRanges`, which it says are to be refused',
    hint: 'List the networks of clients that may connect in `spec.loadBalancerSourceRanges`, and remove it',
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

const unsupportedAt = (key: string): Unsupported | undefined => unsupported.find((one) => one.key.test(key));

/** Whether an annotation asks, by its key, for what rules for packets cannot do. */
export const isUnsupported = (key: string): boolean => unsupportedAt(key) !== undefined;

/**
 * The annotations of a Service that ask for what rules for packets cannot do.
 * @param isOpenBalancer it is of type LoadBalancer, without `loadBalancerSourceRanges`
 */
export function unsupportedIn(
  annotations: Readonly<Record<string, string>>,
  isOpenBalancer: boolean,
): readonly { readonly key: string; readonly why: string; readonly hint: string }[] {
  return Object.keys(annotations)
    .toSorted(compareText)
    .flatMap((key) => {
      const found = unsupportedAt(key);
      if (found?.value.test(annotations[key] ?? '') !== true || (found.ofOpenBalancers === true && !isOpenBalancer))
        return [];
      return [{ key, why: found.why, hint: found.hint }];
    });
}
