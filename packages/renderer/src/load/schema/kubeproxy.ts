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
  nodePortAddresses,
  schedulerText,
  text,
} from './proxy.ts';

const free = (description: string, value: Schema): Schema => ({
  description,
  type: 'object',
  additionalProperties: value,
});
const processOnly = "it concerns kube-proxy's own process";
const windows = 'it concerns Windows alone';

/** @param minSyncPeriod kube-proxy's default in the mode, in seconds */
const periods = (mode: string, minSyncPeriod: number): Record<string, Schema> => {
  const effect = {
    modes: mode === 'iptables' ? ['', mode] : [mode],
    why: 'sluiced applies a bundle as soon as it changes, and compares rules at every event and by its own interval',
    hint: 'Remove it; scanIntervalSeconds in sluiced.yaml is the interval',
  };
  return {
    syncPeriod: unfollowed(duration('How often all rules are written again.'), { usual: [0, 30], ...effect }),
    minSyncPeriod: unfollowed(duration('The least time between two writes.'), { usual: [0, minSyncPeriod], ...effect }),
  };
};
const ofModeNftables = {
  modes: ['nftables'],
  why: 'it concerns mode nftables, and modes iptables and ipvs have an option of their own',
  hint: 'Set the field of the same name under iptables in the profile of sluice.yaml',
};
/** `logging` and `winkernel` belong to other programs' documentation; nothing here depends on them. */
const anything: Schema = { type: ['object', 'array', 'string', 'integer', 'number', 'boolean'] };

/**
 * KubeProxyConfiguration as kube-proxy 1.37 reads it: `pkg/proxy/apis/config/types.go`, checked as `validation.go` there does.
 * Each field says what becomes of it; docs/kube-proxy-config.md is made from that, and so are warnings.
 * Kubernetes fills in defaults before it validates, so `null`, `""` and `0s` stand for "not set" almost everywhere.
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
      fields('How kube-proxy talks to the API server.', {
        kubeconfig: text('Path of a kubeconfig.'),
        acceptContentTypes: text('Accepted content types.'),
        contentType: text('Content type of requests.'),
        qps: { description: 'Requests per second.', type: 'number' },
        burst: integer('Requests at once.', 0, 2_147_483_647),
      }),
      'nodes do not talk to the API server',
    ),
    logging: withoutEffect(free('Logging options.', anything), processOnly),
    hostnameOverride: unfollowed(text('The name of the node.'), {
      usual: [''],
      why: 'nodes take their names from their own config',
      hint: 'Set node in sluiced.yaml of each node',
    }),
    bindAddress: unfollowed(text('The address of the node; empty: any.', { format: 'bind-ip' }), {
      usual: ['', '0.0.0.0', '::'],
      why: 'the address of a node is that of its Node object',
      hint: 'Set nodes[].addresses in sluice.yaml where the address is another one',
    }),
    healthzBindAddress: unfollowed(text('Where health is served.', { format: 'bind-address' }), {
      usual: ['', '0.0.0.0', '::', '0.0.0.0:10256', '[::]:10256'],
      why: 'sluiced serves health where its own config says',
      hint: 'Set listen in sluiced.yaml of each node',
    }),
    metricsBindAddress: withoutEffect(text('Where metrics are served.', { format: 'bind-address' }), processOnly),
    bindAddressHardFail: withoutEffect(flag('Whether a failed bind is fatal.'), processOnly),
    enableProfiling: withoutEffect(flag('Whether pprof is served.'), processOnly),
    showHiddenMetricsForVersion: withoutEffect(text('A version whose hidden metrics are shown.'), processOnly),
    mode: followed(
      text('The proxy mode.', { enum: ['', 'iptables', 'ipvs', 'nftables', 'userspace', 'kernelspace'] }),
      'iptables and ipvs; another mode is refused unless sluice.yaml sets one',
    ),
    iptables: fields('Options of mode iptables; those about masquerading hold in mode ipvs too.', {
      ...allFollowed({ masqueradeBit, masqueradeAll, localhostNodePorts }),
      ...periods('iptables', 1),
    }),
    // kube-proxy hands any scheduler on to the kernel; which ones there are is asked where the profile is made.
    ipvs: fields('Options of mode ipvs. In other modes they have no effect.', {
      ...periods('ipvs', 0),
      ...allFollowed({ ...ipvsFields, scheduler: text(schedulerText) }),
    }),
    nftables: fields('Options of mode nftables.', {
      masqueradeBit: unfollowed(masqueradeBit, { usual: [14], ...ofModeNftables }),
      masqueradeAll: unfollowed(masqueradeAll, { usual: [false], ...ofModeNftables }),
      ...periods('nftables', 1),
    }),
    winkernel: fields('Options of Windows.', {
      networkName: withoutEffect(anything, windows),
      sourceVip: withoutEffect(anything, windows),
      enableDSR: withoutEffect(anything, windows),
      rootHnsEndpointName: withoutEffect(anything, windows),
      forwardHealthCheckVip: withoutEffect(anything, windows),
    }),
    detectLocalMode: followed(text('How traffic of local pods is recognised.', { enum: ['', ...detectLocalModes] })),
    detectLocal: { ...detectLocal, properties: allFollowed(detectLocal.properties ?? {}) },
    clusterCIDR: followed(clusterCIDR),
    nodePortAddresses: followed(
      nodePortAddresses,
      'in mode ipvs no loopback address answers. With `primary`, a node without an address of a family opens no node port in it, where kube-proxy opens all',
    ),
    oomScoreAdj: unfollowed(integer('The oom_score_adj of kube-proxy.', -1000, 1000), {
      usual: [-999],
      why: 'it is a score of the process of kube-proxy, and sluiced has one of its own',
      hint: 'Set OOMScoreAdjust= in a drop-in of sluiced.service, or remove it',
    }),
    conntrack: { ...conntrack, properties: allFollowed(conntrack.properties ?? {}) },
    configSyncPeriod: withoutEffect(duration('How often informers list again.'), 'nodes do not talk to the API server'),
    portRange: withoutEffect(
      text('Unused by the modes of today.', { pattern: '^(?:[0-9]{1,5}(?:[-+][0-9]{1,5})?)?$' }),
      'kube-proxy does not use it either',
    ),
    windowsRunAsService: withoutEffect(flag('Run as a Windows service.'), windows),
  },
};
