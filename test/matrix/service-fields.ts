import { dualStack } from './dual-stack.ts';
import type { JsonObject } from '../../packages/renderer/src/render/model/kube.ts';
import type { Input, Question } from './cluster.ts';
import type { FieldRow } from './rows.ts';

/** The fields of a Service that mean something to packets, each with connections that end otherwise without it. */

const toService: Question = { from: 'client', to: '10.96.0.10:80/tcp' };
const toNodePort: Question = { from: 'outside', to: '192.0.2.11:30080/tcp' };
const toBalancer: Question = { from: 'outside', to: '203.0.113.9:80/tcp' };

/** Modes ipvs and nftables refuse other ports of the address of a Service; kube-proxy's mode iptables leaves them alone. */
const otherPort = { iptables: 'pass', ipvs: 'reject', nftables: 'reject' } as const;
const both = 'a | b';
const bothMasqueraded = 'masquerade a | masquerade b';

const spec = (fields: JsonObject): Input => ({ service: { spec: fields } });
const port = (fields: JsonObject): Input => spec({ ports: [{ name: 'http', port: 80, targetPort: 8080, ...fields }] });
const nodePort: Input = spec({ type: 'NodePort', ports: [{ name: 'http', port: 80, nodePort: 30_080 }] });
const balancer: Input = {
  service: {
    spec: { type: 'LoadBalancer', ports: [{ name: 'http', port: 80, nodePort: 30_080 }] },
    status: { loadBalancer: { ingress: [{ ip: '203.0.113.9' }] } },
  },
};
const ingress = (...entries: readonly JsonObject[]): Input => ({
  service: { status: { loadBalancer: { ingress: [...entries] } } },
});

/** A slice of IPv6 beside that of IPv4, and an IPv6 network of ClusterIPs. */
const withoutRules = { iptables: 'pass', ipvs: 'pass', nftables: 'pass' } as const;
/** The network of ClusterIPs is named: mode nftables drops what no Service of it has. */
const inServiceCIDR = { ...withoutRules, nftables: 'drop' } as const;

export const serviceFields: readonly FieldRow[] = [
  {
    field: 'Service spec.ports.port',
    set: port({ port: 81 }),
    checks: [
      { ask: { from: 'client', to: '10.96.0.10:81/tcp' }, set: both, unset: otherPort },
      { ask: toService, set: otherPort, unset: both },
    ],
  },
  {
    field: 'Service spec.ports.protocol',
    given: { slice: { ports: [{ name: 'http', port: 8080, protocol: 'UDP' }] } },
    set: port({ protocol: 'UDP' }),
    unset: spec({ ports: [{ name: 'other', port: 80 }] }),
    checks: [{ ask: { from: 'client', to: '10.96.0.10:80/udp' }, set: both, unset: otherPort }],
  },
  {
    field: 'Service spec.ports.name',
    given: {
      slice: {
        ports: [
          { name: 'http', port: 8080 },
          { name: 'metrics', port: 9090 },
        ],
      },
    },
    set: port({ name: 'metrics' }),
    checks: [{ ask: toService, set: '10.244.1.5:9090 | 10.244.2.5:9090', unset: both }],
  },
  {
    field: 'Service spec.ports.nodePort',
    given: nodePort,
    set: spec({ ports: [{ name: 'http', port: 80, nodePort: 30_080 }] }),
    unset: spec({ ports: [{ name: 'http', port: 80, nodePort: 30_081 }] }),
    checks: [
      { ask: toNodePort, set: bothMasqueraded, unset: 'pass' },
      { ask: { from: 'node-1', to: '192.0.2.11:30080/tcp' }, set: bothMasqueraded, unset: 'pass' },
    ],
  },
  {
    field: 'Service spec.clusterIP',
    set: spec({ clusterIP: '10.96.0.11' }),
    checks: [
      { ask: { from: 'client', to: '10.96.0.11:80/tcp' }, set: both, unset: 'pass' },
      { ask: { from: 'a', to: '10.96.0.11:80/tcp' }, set: 'b | masquerade a', unset: 'pass' },
      { ask: { from: 'outside', to: '10.96.0.11:80/tcp' }, set: bothMasqueraded, unset: 'pass' },
    ],
  },
  {
    field: 'Service spec.clusterIPs',
    given: dualStack,
    set: spec({
      clusterIPs: ['10.96.0.10', 'fd00:10:96::10'],
      ipFamilies: ['IPv4', 'IPv6'],
      ipFamilyPolicy: 'RequireDualStack',
    }),
    checks: [
      { ask: { from: 'client', to: '[fd00:10:96::10]:80/tcp' }, set: 'a', unset: inServiceCIDR },
      { ask: toService, set: both, unset: both },
    ],
  },
  {
    field: 'Service spec.ipFamilies',
    given: { ...dualStack, service: { spec: { ...(nodePort.service?.['spec'] as JsonObject), clusterIP: null } } },
    set: spec({ ipFamilies: ['IPv6'] }),
    unset: spec({ ipFamilies: ['IPv4'] }),
    checks: [
      { ask: { from: 'outside', to: '[fd00:192::11]:30080/tcp' }, set: 'masquerade a', unset: 'pass' },
      { ask: toNodePort, set: 'pass', unset: bothMasqueraded },
    ],
  },
  {
    field: 'Service spec.ipFamilyPolicy',
    given: { ...dualStack, service: { spec: { ...(nodePort.service?.['spec'] as JsonObject), clusterIP: null } } },
    set: spec({ ipFamilyPolicy: 'PreferDualStack' }),
    unset: spec({ ipFamilyPolicy: 'SingleStack' }),
    checks: [
      { ask: { from: 'outside', to: '[fd00:192::11]:30080/tcp' }, set: 'masquerade a', unset: 'pass' },
      { ask: toNodePort, set: bothMasqueraded, unset: bothMasqueraded },
    ],
  },
  {
    field: 'Service spec.type',
    set: nodePort,
    checks: [{ ask: toNodePort, set: bothMasqueraded, unset: 'pass' }],
  },
  {
    field: 'Service spec.externalIPs',
    set: spec({ externalIPs: ['198.51.100.77'] }),
    checks: [
      { ask: { from: 'outside', to: '198.51.100.77:80/tcp' }, set: bothMasqueraded, unset: 'pass' },
      { ask: { from: 'client', to: '198.51.100.77:80/tcp' }, set: bothMasqueraded, unset: 'pass' },
    ],
  },
  {
    field: 'Service spec.sessionAffinity',
    set: spec({ sessionAffinity: 'ClientIP' }),
    checks: [
      { ask: { from: 'client', to: '10.96.0.10:80/tcp', remembers: 'a' }, set: 'a', unset: both },
      { ask: { from: 'client', to: '10.96.0.10:80/tcp', remembers: 'b' }, set: 'b', unset: both },
      { ask: toService, set: both, unset: both },
    ],
  },
  {
    field: 'Service spec.sessionAffinityConfig.clientIP.timeoutSeconds',
    given: spec({ sessionAffinity: 'ClientIP' }),
    set: spec({ sessionAffinityConfig: { clientIP: { timeoutSeconds: 600 } } }),
    checks: [{ ask: { seconds: '10.96.0.10:80/tcp' }, set: '600', unset: '10800' }],
  },
  {
    field: 'Service spec.loadBalancerSourceRanges',
    given: balancer,
    set: spec({ loadBalancerSourceRanges: ['198.51.100.0/24'] }),
    checks: [
      { ask: { from: 'stranger', to: '203.0.113.9:80/tcp' }, set: 'drop', unset: bothMasqueraded },
      { ask: { from: 'client', to: '203.0.113.9:80/tcp' }, set: 'drop', unset: bothMasqueraded },
      { ask: { from: 'node-1', to: '203.0.113.9:80/tcp' }, set: 'drop', unset: bothMasqueraded },
      { ask: toBalancer, set: bothMasqueraded, unset: bothMasqueraded },
      { ask: toNodePort, set: bothMasqueraded, unset: bothMasqueraded },
    ],
  },
  {
    field: 'Service spec.externalTrafficPolicy',
    given: {
      service: {
        ...balancer.service,
        spec: { ...(balancer.service?.['spec'] as JsonObject), externalIPs: ['198.51.100.77'] },
      },
    },
    set: spec({ externalTrafficPolicy: 'Local' }),
    checks: [
      { ask: toNodePort, set: 'a', unset: bothMasqueraded },
      { ask: toBalancer, set: 'a', unset: bothMasqueraded },
      { ask: { from: 'outside', to: '198.51.100.77:80/tcp' }, set: 'a', unset: bothMasqueraded },
    ],
  },
  {
    field: 'Service spec.healthCheckNodePort',
    given: {
      service: {
        ...balancer.service,
        spec: { ...(balancer.service?.['spec'] as JsonObject), externalTrafficPolicy: 'Local' },
      },
    },
    set: spec({ healthCheckNodePort: 30_999 }),
    unset: spec({ healthCheckNodePort: 30_998 }),
    checks: [
      {
        ask: { from: 'outside', to: '192.0.2.11:30999/tcp' },
        set: { iptables: 'accept', ipvs: 'accept', nftables: 'pass' },
        unset: 'pass',
      },
    ],
    differs: {
      nftables:
        'its table drops nothing else, so that it needs no rule; the port is open as in all modes: see the promise',
    },
  },
  {
    field: 'Service spec.allocateLoadBalancerNodePorts',
    given: spec({ type: 'LoadBalancer' }),
    set: spec({ allocateLoadBalancerNodePorts: false }),
    checks: [{ ask: { open: 'node ports' }, set: '0', unset: '1' }],
  },
  {
    field: 'Service spec.internalTrafficPolicy',
    set: spec({ internalTrafficPolicy: 'Local' }),
    checks: [
      { ask: toService, set: 'a', unset: both },
      { ask: { from: 'client of node-2', to: '10.96.0.10:80/tcp' }, set: 'b', unset: both },
    ],
  },
  {
    field: 'Service status.loadBalancer.ingress.ip',
    given: spec({ type: 'LoadBalancer' }),
    set: ingress({ ip: '203.0.113.9' }),
    checks: [{ ask: toBalancer, set: bothMasqueraded, unset: 'pass' }],
  },
  {
    field: 'Service status.loadBalancer.ingress.ipMode',
    given: balancer,
    set: ingress({ ip: '203.0.113.9', ipMode: 'Proxy' }),
    unset: ingress({ ip: '203.0.113.9', ipMode: 'VIP' }),
    checks: [{ ask: toBalancer, set: 'pass', unset: bothMasqueraded }],
  },
  {
    field: 'Service metadata.labels',
    set: { service: { metadata: { labels: { 'service.kubernetes.io/service-proxy-name': 'other' } } } },
    checks: [{ ask: toService, set: 'pass', unset: both }],
  },
  {
    field: 'Service metadata.annotations',
    set: { service: { metadata: { annotations: { 'sluice.dev/scheduler': 'source-hash' } } } },
    checks: [
      {
        ask: { scheduler: '10.96.0.10:80/tcp' },
        set: { iptables: 'random', ipvs: 'sh', nftables: 'source-hash' },
        unset: { iptables: 'random', ipvs: 'rr', nftables: 'random' },
      },
    ],
    differs: { iptables: 'its rules choose at random alone, as those of kube-proxy' },
  },
];
