/**
 * Chains that both the kubelet and kube-proxy create (kubernetes/kubernetes `pkg/kubelet/kubelet_network_linux.go`). The kubelet may
 * rely on them, so neither they nor the jumps to them are ever deleted.
 */
export const sharedChains: ReadonlySet<string> = new Set([
  'KUBE-FIREWALL',
  'KUBE-KUBELET-CANARY',
  'KUBE-IPTABLES-HINT',
]);
