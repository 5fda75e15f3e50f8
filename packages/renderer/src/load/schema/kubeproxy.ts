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
const periods = {
  syncPeriod: duration('How often all rules are written again.'),
  minSyncPeriod: duration('The least time between two writes.'),
};
/** `logging` and `winkernel` belong to other programs' documentation; nothing here depends on them. */
const anything: Schema = { type: ['object', 'array', 'string', 'integer', 'number', 'boolean'] };

/**
 * KubeProxyConfiguration as kube-proxy 1.37 reads it: `pkg/proxy/apis/config/types.go`, checked as `validation.go` there does.
 * Kubernetes fills in defaults before it validates, so `null`, `""` and `0s` stand for "not set" almost everywhere.
 */
export const kubeProxySchema: Schema = {
  type: 'object',
  required: ['apiVersion', 'kind'],
  additionalProperties: false,
  properties: {
    apiVersion: text('The version of the format.', { const: 'kubeproxy.config.k8s.io/v1alpha1' }),
    kind: text('The kind.', { const: 'KubeProxyConfiguration' }),
    featureGates: free('Feature gates by name.', flag('On or off.')),
    clientConnection: fields('How kube-proxy talks to the API server.', {
      kubeconfig: text('Path of a kubeconfig.'),
      acceptContentTypes: text('Accepted content types.'),
      contentType: text('Content type of requests.'),
      qps: { description: 'Requests per second.', type: 'number' },
      burst: integer('Requests at once.', 0, 2_147_483_647),
    }),
    logging: free('Logging options.', anything),
    hostnameOverride: text('The name of the node.'),
    bindAddress: text('The address of the node; empty: any.', { format: 'bind-ip' }),
    healthzBindAddress: text('Where health is served.', { format: 'bind-address' }),
    metricsBindAddress: text('Where metrics are served.', { format: 'bind-address' }),
    bindAddressHardFail: flag('Whether a failed bind is fatal.'),
    enableProfiling: flag('Whether pprof is served.'),
    showHiddenMetricsForVersion: text('A version whose hidden metrics are shown.'),
    mode: text('The proxy mode.', { enum: ['', 'iptables', 'ipvs', 'nftables', 'userspace', 'kernelspace'] }),
    iptables: fields('Options of mode iptables; those about masquerading hold in mode ipvs too.', {
      masqueradeBit,
      masqueradeAll,
      localhostNodePorts,
      ...periods,
    }),
    // kube-proxy hands any scheduler on to the kernel; which ones there are is asked where the profile is made.
    ipvs: fields('Options of mode ipvs. In other modes they have no effect.', {
      ...periods,
      ...ipvsFields,
      scheduler: text(schedulerText),
    }),
    nftables: fields('Options of mode nftables.', { masqueradeBit, masqueradeAll, ...periods }),
    winkernel: free('Options of Windows.', anything),
    detectLocalMode: text('How traffic of local pods is recognised.', { enum: ['', ...detectLocalModes] }),
    detectLocal,
    clusterCIDR,
    nodePortAddresses,
    oomScoreAdj: integer('The oom_score_adj of kube-proxy.', -1000, 1000),
    conntrack,
    configSyncPeriod: duration('How often informers list again.'),
    portRange: text('Unused by the modes of today.', { pattern: '^(?:[0-9]{1,5}(?:[-+][0-9]{1,5})?)?$' }),
    windowsRunAsService: flag('Run as a Windows service.'),
  },
};
