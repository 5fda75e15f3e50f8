import type { HookPacket } from './meetings.ts';

/** For tests only: a packet of a pod to an endpoint on another node, as a Service's rules translated it. */
export const forwardedPacket: HookPacket = {
  family: 'ipv4',
  protocol: 'tcp',
  source: '10.244.1.9',
  destination: '10.244.2.6',
  port: 8080,
  original: { destination: '10.96.0.10', port: 80 },
  isReply: false,
  in: 'cali1',
  out: 'eth0',
  isTranslated: true,
  isMasqueraded: false,
  isToNode: false,
};
