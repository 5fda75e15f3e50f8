/**
 * Chains that the kubelet and kube-proxy both know (kubernetes/kubernetes `pkg/kubelet/kubelet_network_linux.go`). Whoever
 * comes second finds them there, so neither they nor the jumps to them are ever taken away.
 */
export const sharedChains: ReadonlySet<string> = new Set([
  'KUBE-FIREWALL',
  'KUBE-KUBELET-CANARY',
  'KUBE-IPTABLES-HINT',
]);
