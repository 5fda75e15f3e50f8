import { bundleOf } from './bundle.fixture.ts';
import {
  type Case,
  both,
  web,
  spec,
  port,
  balanced,
  open,
  alone,
  surviving,
  forged,
  waiver,
  given,
  annotated,
  many,
  merged,
  external,
} from './cases.fixture.ts';

const localhost = '    kubeProxyVersion: "1.38"\n    nodePortAddresses:';

/** Rules about a bundle, whatever was before it. */
export const casesOfBundles: readonly Case[] = [
  ['EXTERNAL_IP', 'the address is not in policy.externalIPs', () => alone(external), true],
  [
    'EXTERNAL_IP',
    'the address is in a network that is allowed',
    () => ({ ...alone(external), settings: { externalIPs: ['203.0.113.0/28', '203.0.113.48/28'] } }),
    false,
  ],
  [
    'EXTERNAL_IP',
    'a load balancer without endpoints has addresses of its own, not external ones',
    () => alone(balanced(open, { endpoints: [] })),
    false,
  ],
  ['EXTERNAL_IP_DEPRECATED', 'a Service has an external IP', () => alone(external), true],
  [
    'EXTERNAL_IP_DEPRECATED',
    'the feature gate is off, so that no node serves it',
    () => ({ files: bundleOf([external], '    featureGates: { AllowServiceExternalIPs: false }\n') }),
    false,
  ],
  ['MODE_ENDS', 'a profile is in mode ipvs', () => ({ files: bundleOf([web], '    mode: ipvs\n') }), true],
  ['MODE_ENDS', 'a profile is in mode nftables', () => ({ files: bundleOf([web], '    mode: nftables\n') }), false],
  ['MODE_ENDS', 'a profile is in mode iptables', () => alone(web), false],
  [
    'FRONTEND_OVERLAP',
    'two changes that were merged give one external address to two Services',
    () => merged(['externalIPs: [203.0.113.50]'], ['externalIPs: [203.0.113.51]'], '203.0.113.51', '203.0.113.50'),
    true,
  ],
  [
    'FRONTEND_OVERLAP',
    'two changes that were merged give one node port to two Services',
    () =>
      forged(
        [
          { ...web, type: 'NodePort', spec: [port('http')] },
          { ...many(1)[0]!, type: 'NodePort', spec: [port('http').replace('30080', '30081')] },
        ],
        '30081',
        '30080',
      ),
    true,
  ],
  [
    'FRONTEND_OVERLAP',
    'two Services share an address with different ports',
    () =>
      alone(external, {
        ...external,
        name: 'other',
        clusterIPs: ['10.96.0.31'],
        spec: ['externalIPs: [203.0.113.50]', 'ports: [{ name: http, port: 81, targetPort: 8080 }]'],
      }),
    false,
  ],
  [
    'ADDRESS_SHARED',
    'two Services share an address with different ports',
    () =>
      alone(external, {
        ...external,
        name: 'other',
        clusterIPs: ['10.96.0.31'],
        spec: ['externalIPs: [203.0.113.50]', 'ports: [{ name: http, port: 81, targetPort: 8080 }]'],
      }),
    true,
  ],
  [
    'ADDRESS_SHARED',
    'two Services have addresses of their own',
    () => alone(external, { ...spec('externalIPs: [203.0.113.51]'), name: 'other', clusterIPs: ['10.96.0.31'] }),
    false,
  ],
  [
    'LOCALHOST_NODE_PORTS',
    'mode nftables has a node port',
    () => ({ files: bundleOf([{ ...web, type: 'NodePort' }], '    mode: nftables\n') }),
    true,
  ],
  [
    'LOCALHOST_NODE_PORTS',
    'mode nftables of kube-proxy 1.38 rejects a node port on localhost',
    () => ({ files: bundleOf([{ ...web, type: 'NodePort' }], `    mode: nftables\n${localhost} [all]\n`) }),
    true,
  ],
  [
    'LOCALHOST_NODE_PORTS',
    'mode nftables of kube-proxy 1.38 serves a node port on localhost',
    () => ({
      files: bundleOf([{ ...web, type: 'NodePort' }], `    mode: nftables\n${localhost} [primary, localhost]\n`),
    }),
    false,
  ],
  [
    'LOCALHOST_NODE_PORTS',
    'mode nftables of kube-proxy 1.38 serves a node port on ::1 alone, in a cluster of IPv6 alone',
    () => ({
      files: bundleOf(
        [{ ...web, clusterIPs: ['fd00:10:96::30'], endpoints: ['fd00:10:244:1::5 node-a z1'], type: 'NodePort' }],
        `    mode: nftables\n    families: [ipv6]\n${localhost} ["::1/128"]\n`,
      ),
    }),
    false,
  ],
  [
    'LOCALHOST_NODE_PORTS',
    'mode nftables of kube-proxy 1.38 serves a node port on ::1, and rejects it on 127.0.0.1',
    () => ({
      files: bundleOf([{ ...web, type: 'NodePort' }], `    mode: nftables\n${localhost} [primary, "::1/128"]\n`),
    }),
    true,
  ],
  [
    'LOCALHOST_NODE_PORTS',
    'node ports of mode ipvs are open on other addresses alone',
    () => ({
      files: bundleOf([{ ...web, type: 'NodePort' }], '    mode: ipvs\n    nodePortAddresses: [192.0.2.0/24]\n'),
    }),
    false,
  ],
  [
    'LOCALHOST_NODE_PORTS',
    'mode nftables has no node port',
    () => ({ files: bundleOf([web], '    mode: nftables\n') }),
    false,
  ],
  ['LOCALHOST_NODE_PORTS', 'mode iptables has a node port', () => alone({ ...web, type: 'NodePort' }), false],
  ...[
    'service.beta.kubernetes.io/load-balancer-source-ranges',
    'service.beta.kubernetes.io/azure-allowed-ip-ranges',
    'service.beta.kubernetes.io/azure-allowed-service-tags',
    'service.beta.kubernetes.io/do-loadbalancer-allow-rules',
    'service.beta.kubernetes.io/do-loadbalancer-deny-rules',
    'service.beta.kubernetes.io/aws-load-balancer-security-groups',
    'service.beta.kubernetes.io/aws-load-balancer-security-group-prefix-lists',
    'service.beta.kubernetes.io/alibaba-cloud-loadbalancer-acl-id',
    'service.beta.kubernetes.io/linode-loadbalancer-firewall-acl',
    'service.beta.kubernetes.io/vultr-loadbalancer-firewall-rules',
    'kubernetes.civo.com/firewall-id',
    'kubernetes.io/elb.acl-id',
    'oci.oraclecloud.com/oci-network-security-groups',
    'service.cloud.tencent.com/security-groups',
  ].flatMap((key): readonly Case[] => [
    ['ANNOTATION_WITHOUT_EFFECT', key, () => annotated(key, '198.51.100.0/24', 'type: LoadBalancer'), true],
    [
      'ANNOTATION_WITHOUT_EFFECT',
      `${key} beside source ranges`,
      () => annotated(key, '198.51.100.0/24', 'type: LoadBalancer, loadBalancerSourceRanges: [198.51.100.0/24]'),
      false,
    ],
    ['ANNOTATION_WITHOUT_EFFECT', `${key} without a load balancer`, () => annotated(key, '198.51.100.0/24'), false],
  ]),
  [
    'ANNOTATION_WITHOUT_EFFECT',
    'an annotation for the source ranges of an ingress controller',
    () => annotated('nginx.ingress.kubernetes.io/whitelist-source-range', '198.51.100.0/24', 'type: LoadBalancer'),
    false,
  ],
  ...[true, false].map(
    (isDenied): Case => [
      'ANNOTATION_WITHOUT_EFFECT',
      `Cilium’s ranges of clients that are ${isDenied ? 'refused' : 'admitted'}`,
      () =>
        annotated(
          'service.cilium.io/src-ranges-policy',
          isDenied ? 'deny' : 'allow',
          'type: LoadBalancer, loadBalancerSourceRanges: [198.51.100.0/24]',
        ),
      isDenied,
    ],
  ),
  [
    'ANNOTATION_WITHOUT_EFFECT',
    'Tencent’s direct access',
    () => annotated('service.cloud.tencent.com/direct-access', 'true'),
    true,
  ],
  [
    'ANNOTATION_WITHOUT_EFFECT',
    'it is off',
    () => annotated('service.cloud.tencent.com/direct-access', 'false'),
    false,
  ],
  [
    'ANNOTATION_WITHOUT_EFFECT',
    'cookies of Traefik',
    () => annotated('traefik.ingress.kubernetes.io/service.sticky.cookie', 'true'),
    true,
  ],
  [
    'ANNOTATION_WITHOUT_EFFECT',
    'the name of a cookie alone',
    () => annotated('traefik.ingress.kubernetes.io/service.sticky.cookie.name', 'x'),
    false,
  ],
  [
    'ANNOTATION_WITHOUT_EFFECT',
    'cookies of ingress-nginx',
    () => annotated('nginx.ingress.kubernetes.io/affinity', 'cookie'),
    true,
  ],
  ['ANNOTATION_WITHOUT_EFFECT', 'affinity of pods to nodes', () => annotated('example.com/affinity', 'cookie'), false],
  [
    'ANNOTATION_WITHOUT_EFFECT',
    'cookies of HAProxy',
    () => annotated('haproxy.org/cookie-persistence', 'SERVERID'),
    true,
  ],
  [
    'ANNOTATION_WITHOUT_EFFECT',
    'cookies of a load balancer',
    () => annotated('service.beta.kubernetes.io/do-loadbalancer-sticky-sessions-type', 'cookies'),
    true,
  ],
  ['ANNOTATION_WITHOUT_EFFECT', 'other annotations', () => annotated('prometheus.io/scrape', 'true'), false],
  ['TOPOLOGY_KEYS', 'a Service has them', () => given('topologyKeys: [kubernetes.io/hostname, "*"]'), true],
  ['TOPOLOGY_KEYS', 'the list is empty', () => given('topologyKeys: []'), false],
  ['ENDPOINT_NODE_NOT_READY', 'its Node is lost', () => given('', 'Unknown'), true],
  ['ENDPOINT_NODE_NOT_READY', 'its Node is ready', () => given(''), false],
  [
    'ENDPOINT_NODE_NOT_READY',
    'the endpoint is not ready either',
    () => given('', 'False', 'conditions: { ready: false }'),
    false,
  ],
  [
    'ENDPOINT_RANGE',
    'an endpoint is outside of the pod networks',
    () => alone({ ...web, endpoints: [...both, '198.51.100.9'] }),
    true,
  ],
  [
    'ENDPOINT_RANGE',
    'an endpoint is in policy.endpointRanges',
    () => ({
      ...alone({ ...web, endpoints: [...both, '198.51.100.9'] }),
      settings: { endpointRanges: ['198.51.100.0/28'] },
    }),
    false,
  ],
  ['ENDPOINT_LOCAL', 'an endpoint is a loopback address', () => forged([web], '10.244.1.5', '127.0.0.1'), true],
  ['ENDPOINT_LOCAL', "an endpoint is the cloud's metadata", () => forged([web], '10.244.1.5', '169.254.169.254'), true],
  ['ENDPOINT_LOCAL', 'a cluster address is multicast', () => forged([web], '10.96.0.30', '224.0.0.5'), true],
  ['ENDPOINT_LOCAL', 'an endpoint is a pod', () => alone(web), false],
  ['ROUTE_LOCALNET', 'node ports answer on localhost', () => alone(web), true],
  [
    'ROUTE_LOCALNET',
    'node ports do not answer on localhost',
    () => ({ files: bundleOf([web], '    iptables: { localhostNodePorts: false }\n') }),
    false,
  ],
  ['ADDRESS_TAKEN', 'an external IP is a node', () => alone(spec('externalIPs: [192.0.2.11]')), true],
  ['ADDRESS_TAKEN', 'an external IP is a gateway of pods', () => alone(spec('externalIPs: [10.244.2.1]')), true],
  ['ADDRESS_TAKEN', "a cluster address is the API's", () => alone({ ...web, clusterIPs: ['10.96.0.1'] }), true],
  [
    'ADDRESS_TAKEN',
    "an external IP is the DNS's",
    () =>
      alone(
        { ...web, name: 'dns', clusterIPs: ['10.96.0.10'] },
        spec('externalIPs: [10.96.0.10]', 'ports: [{ name: http, port: 53 }]'),
      ),
    true,
  ],
  [
    'ADDRESS_TAKEN',
    'two Services have one cluster address',
    () => forged([web, { ...web, name: 'thief', clusterIPs: ['10.96.0.31'] }], '10.96.0.31', '10.96.0.30'),
    true,
  ],
  [
    'ADDRESS_TAKEN',
    'a load balancer has the address of a router',
    () => ({ ...alone(balanced(open)), settings: { protected: ['203.0.113.9'] } }),
    true,
  ],
  [
    'ADDRESS_TAKEN',
    'ServiceLB of k3s gives a load balancer the addresses of nodes',
    () => alone(balanced(open, { ingress: ['192.0.2.11', '2001:db8:2::12'] })),
    false,
  ],
  [
    'ADDRESS_TAKEN',
    'it does so in mode nftables',
    () => ({ files: bundleOf([balanced(open, { ingress: ['192.0.2.11'] })], '    mode: nftables\n') }),
    false,
  ],
  [
    'ADDRESS_TAKEN',
    'a load balancer has the address of a node in mode ipvs',
    () => {
      const files = bundleOf([balanced(open, { ingress: ['192.0.2.99'] })], '    mode: ipvs\n');
      return { files: new Map([...files].map(([path, text]) => [path, text.replaceAll('192.0.2.99', '192.0.2.11')])) };
    },
    true,
  ],
  ['ADDRESS_TAKEN', 'an external IP has no other owner', () => alone(external), false],
  ['RANGES_ONE_FAMILY', 'IPv6 is open beside ranges of IPv4', () => alone(balanced(['198.51.100.0/24'])), true],
  [
    'RANGES_ONE_FAMILY',
    'the only address is of IPv6, the only range of IPv4',
    () => alone(balanced(['198.51.100.0/24'], { ingress: ['2001:db8:100::9'] })),
    true,
  ],
  ['RANGES_ONE_FAMILY', 'both families have ranges', () => alone(balanced(open)), false],
  [
    'RANGES_ONE_FAMILY',
    'the only address is of the only range’s family',
    () => alone(balanced(['198.51.100.0/24'], { ingress: ['203.0.113.9'] })),
    false,
  ],
  ['SINGLE_NODE', 'all endpoints are on one node', () => alone({ ...web, endpoints: both.slice(0, 1) }), true],
  ['SINGLE_NODE', 'endpoints are on two nodes', () => alone(web), false],
  ['SINGLE_ZONE', 'all endpoints are in one zone', () => alone({ ...web, endpoints: both.slice(1) }), true],
  ['SINGLE_ZONE', 'endpoints are in two zones', () => alone(web), false],
  ['SURVIVES_NODE', 'all endpoints are on one node', () => surviving({ ...web, endpoints: both.slice(0, 1) }), true],
  ['SURVIVES_NODE', 'endpoints are on two nodes', () => surviving(web), false],
  ['SURVIVES_ZONE', 'all endpoints are in one zone', () => surviving({ ...web, endpoints: both.slice(1) }), true],
  ['SURVIVES_ZONE', 'endpoints are in two zones', () => surviving(web), false],
  [
    'WAIVER_EXPIRED',
    'its last day was yesterday',
    () => ({ ...alone(external), settings: waiver('2026-11-20') }),
    true,
  ],
  ['WAIVER_EXPIRED', 'its last day is today', () => ({ ...alone(external), settings: waiver('2026-11-21') }), false],
  ['WAIVER_UNUSED', 'nothing was found', () => ({ ...alone(web), settings: waiver('2027-01-01') }), true],
  ['WAIVER_UNUSED', 'it waives something', () => ({ ...alone(external), settings: waiver('2027-01-01') }), false],
];
