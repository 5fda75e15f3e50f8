import type { Problem } from '@sluice/netfilter';

/** Whether loading the module of mode ipvs may solve a problem. */
export function lacksModule({ code, message }: Problem): boolean {
  return code === 'NODE_SYSCTL_FIXED' && message.includes(' net.ipv4.vs.');
}

export function withoutIpvs(because: string): Problem {
  return {
    code: 'NODE_LACKS_NEED',
    level: 'error',
    message: `Cannot apply a profile in mode ipvs: the node's kernel does not support it: ${because}`,
    hint: 'Load the module (`modprobe ip_vs`), or give the node a profile in mode iptables',
  };
}
