import type { TransportProtocol } from '@sluice/netfilter';
import type { PortFacts } from './facts.ts';

type Keyed = Pick<PortFacts, 'key'>;

/** `shop/web:http 80/TCP`. @param name `shop/web:http`, or `shop/web` for a port without a name */
export function portKey(name: string, port: number, protocol: TransportProtocol): string {
  return `${name} ${port}/${protocol.toUpperCase()}`;
}

/** `shop/web:http` of `shop/web:http 80/TCP`. */
export function portName({ key }: Keyed): string {
  return key.slice(0, key.lastIndexOf(' '));
}

/** `80/TCP` of `shop/web:http 80/TCP`: a Service has it once. */
export function numberAndProtocolOf({ key }: Keyed): string {
  return key.slice(key.lastIndexOf(' ') + 1);
}
