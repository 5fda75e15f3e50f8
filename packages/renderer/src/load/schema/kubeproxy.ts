import { allFollowed, followed, unfollowed, withoutEffect } from './effect.ts';
import { gates } from './gates.ts';
import type { Schema } from './schema.ts';
import {
  clusterCIDR,
  conntrack,
  detectLocal,
  detectLocalModes,
  duration,
  fields,
  flag,
  integer,
  ipvsFields,
  localhostNodePorts,
  masqueradeAll,
  masqueradeBit,
  nftablesFields,
  nodePortAddresses,
  schedulerText,
  text,
} from './proxy.ts';

const free = (description: string, value: Schema): Schema => ({
  description,
  type: 'object',
  additionalProperties: value,
});
const processOnly = "it affects only kube-proxy's process";
const windows = 'it affects only Windows';

/** @param minSyncPeriod kube-proxy's default in the mode, in seconds */
const periods = (mode: string, minSyncPeriod: number): Record<string, Schema> => {
  const effect = {
    modes: mode === 'iptables' ? ['', mode] : [mode],
    why: 'sluiced applies a bundle as soon as it changes, and checks for drift at every event and at its own interval',
    hint: 'Remove it; scanIntervalSeconds in sluiced.yaml is the interval',
  };
  return {
    syncPeriod: unfollowed(duration('How often all rules are rewritten.'), { usual: [0, 30], ...effect }),
    minSyncPeriod: unfollowed(duration('The minimum time between two writes.'), {
      usual: [0, minSyncPeriod],
      ...effect,
    }),
  };
};
/** `logging` and `winkernel` are documented elsewhere; Sluice does not depend on them. */
const anything: Schema = { type: ['object', 'array', 'string', 'integer', 'number', 'boolean'] };

/**
 * KubeProxyConfiguration as kube-proxy 1.37 reads it: `pkg/proxy/apis/config/types.go`, checked as `validation.go` there does.
 * Each field has its effect; docs/kube-proxy-config.md and warnings are generated from it.
 * Kubernetes sets defaults before validation, so `null`, `""` and `0s` mean "not set" almost everywhere.
 */
export const kubeProxySchema: Schema = {
  type: 'object',
  required: ['apiVersion', 'kind'],
  additionalProperties: false,
  properties: {
    apiVersion: followed(text('The version of the format.', { const: 'kubeproxy.config.k8s.io/v1alpha1' })),
    kind: followed(text('The kind.', { const: 'KubeProxyConfiguration' })),
    featureGates: {
      ...free('Feature gates of kube-proxy, by name.', flag('On or off.')),
      properties: gates,
      effect: { kind: 'followed', note: 'gate by gate, as below' },
    },
    clientConnection: withoutEffect(
      fields('The connection of kube-proxy to the API server.', {
        kubeconfig: text('Path of a kubeconfig.'),
        acceptContentTypes: text('Accepted content types.'),
        contentType: text('Content type of requests.'),
        qps: { description: 'Requests per second.', type: 'number' },
        burst: integer('Requests at once.', 0, 2_147_483_647),
      }),
      'nodes do not connect to the API server',
    ),
    logging: withoutEffect(free('Logging options.', anything), processOnly),
    hostnameOverride: unfollowed(text('The name of the node.'), {
      usual: [''],
      why: 'each node sets its name in its own config',
      hint: 'Set node in sluiced.yaml of each node',
    }),
    bindAddress: unfollowed(text('The address of the node; empty: any.', { format: 'bind-ip' }), {
      usual: ['', '0.0.0.0', '::'],
      why: 'the address of a node is that of its Node object',
      hint: 'Set nodes[].addresses in sluice.yaml if the address differs',
    }),
    healthzBindAddress: unfollowed(text('The address of the health endpoint.', { format: 'bind-address' }), {
      usual: ['', '0.0.0.0', '::', '0.0.0.0:10256', '[::]:10256'],
      why: 'sluiced has its own setting for the health endpoint',
      hint: 'Set listen in sluiced.yaml of each node',
    }),
    metricsBindAddress: withoutEffect(
      text('The address of the metrics endpoint.', { format: 'bind-address' }),
      processOnly,
    ),
    bindAddressHardFail: withoutEffect(flag('Whether a failed bind is fatal.'), processOnly),
    enableProfiling: withoutEffect(flag('Whether pprof is served.'), processOnly),
    showHiddenMetricsForVersion: withoutEffect(text('A version whose hidden metrics are shown.'), processOnly),
    mode: followed(
      text('The proxy mode.', { enum: ['', 'iptables', 'ipvs', 'nftables', 'userspace', 'kernelspace'] }),
      'iptables, ipvs and nftables; other modes are refused unless sluice.yaml overrides them',
    ),
    iptables: fields('Options of mode iptables; those about masquerading apply to mode ipvs too.', {
      ...allFollowed({ masqueradeBit, masqueradeAll, localhostNodePorts }),
      ...periods('iptables', 1),
    }),
    // kube-proxy passes any scheduler to the kernel; `checkIpvs` checks the name.
    ipvs: fields('Options of mode ipvs. In other modes they have no effect.', {
      ...periods('ipvs', 0),
      ...allFollowed({ ...ipvsFields, scheduler: text(schedulerText) }),
    }),
    nftables: fields('Options of mode nftables. In other modes they have no effect.', {
      masqueradeBit: withoutEffect(masqueradeBit, 'rules of mode nftables use no packet mark'),
      ...allFollowed(nftablesFields),
      ...periods('nftables', 1),
    }),
    winkernel: fields('Options of Windows.', {
      networkName: withoutEffect(anything, windows),
      sourceVip: withoutEffect(anything, windows),
      enableDSR: withoutEffect(anything, windows),
      rootHnsEndpointName: withoutEffect(anything, windows),
      forwardHealthCheckVip: withoutEffect(anything, windows),
    }),
    detectLocalMode: followed(text('How traffic from local pods is detected.', { enum: ['', ...detectLocalModes] })),
    detectLocal: { ...detectLocal, properties: allFollowed(detectLocal.properties ?? {}) },
    clusterCIDR: followed(clusterCIDR),
    nodePortAddresses: followed(
      nodePortAddresses,
      'in modes ipvs and nftables node ports are not served on loopback addresses. With `primary`, a node without an address of a family opens no node ports in it, where kube-proxy opens all',
    ),
    oomScoreAdj: unfollowed(integer('The oom_score_adj of kube-proxy.', -1000, 1000), {
      usual: [-999],
      why: 'it is for the process of kube-proxy, and sluiced has its own setting',
      hint: 'Set OOMScoreAdjust= in a drop-in of sluiced.service, or remove it',
    }),
    conntrack: { ...conntrack, properties: allFollowed(conntrack.properties ?? {}) },
    configSyncPeriod: withoutEffect(duration('How often informers resync.'), 'nodes do not connect to the API server'),
    portRange: withoutEffect(
      text('Unused by the current modes.', { pattern: '^(?:[0-9]{1,5}(?:[-+][0-9]{1,5})?)?$' }),
      'kube-proxy does not use it either',
    ),
    windowsRunAsService: withoutEffect(flag('Run as a Windows service.'), windows),
  },
};
