import { checkRoutable } from './addresses.ts';
import { report, mappingIn, mappingsIn, type FieldSpot, textIn, wordIn } from './fields.ts';
import type { ServiceType } from '../model/model.ts';

/** One entry of `status.loadBalancer.ingress` that has an address. */
export interface ReadIngress {
  readonly address: string;
  /** The position in the manifest. */
  readonly index: number;
}

/**
 * Reads the addresses of load balancers. Those with `ipMode: Proxy` and host names get no rules, as in kube-proxy: their traffic goes
 * through the load balancer, as the cloud provider intends, so that is a note.
 */
export function readIngress(
  top: FieldSpot,
  type: ServiceType,
): { readonly ingress: readonly ReadIngress[]; readonly proxiedIngress: readonly ReadIngress[] } {
  const status = mappingIn(top, 'status');
  const balancer = status && mappingIn(status, 'loadBalancer');
  if (!balancer) return none;
  const spots = mappingsIn(balancer, 'ingress');
  if (spots.length > 0 && type !== 'LoadBalancer') {
    report(balancer, ['ingress'], strayIngress(type));
    return none;
  }
  const entries = spots.flatMap(readEntry);
  const ofMode = (isProxied: boolean): readonly ReadIngress[] =>
    entries.filter((entry) => entry.isProxied === isProxied).map(({ address, index }) => ({ address, index }));
  return { ingress: ofMode(false), proxiedIngress: ofMode(true) };
}

const none = { ingress: [], proxiedIngress: [] } as const;

function readEntry(spot: FieldSpot): (ReadIngress & { readonly isProxied: boolean })[] {
  const text = textIn(spot, 'ip') ?? '';
  const hostname = textIn(spot, 'hostname') ?? '';
  const mode = wordIn(spot, 'ipMode', ['VIP', 'Proxy'], 'VIP');
  if (text === '') {
    if (hostname !== '') report(spot, ['hostname'], byName);
    return [];
  }
  const address = checkRoutable(spot, ['ip'], text);
  if (mode === 'Proxy') report(spot, ['ipMode'], byProxy);
  return address === undefined ? [] : [{ address, index: spot.index, isProxied: mode === 'Proxy' }];
}

const strayIngress = (type: ServiceType) =>
  ({
    code: 'OBJECT_IGNORED',
    level: 'warning',
    message: `Cannot use status.loadBalancer of a Service of type ${type}: the API server would clear it`,
    hint: 'Remove status, or set the type to LoadBalancer',
  }) as const;
const byName = {
  code: 'OBJECT_IGNORED',
  level: 'note',
  message: 'Cannot make rules for a load balancer with a host name only: its traffic goes through the load balancer',
  hint: 'No change is needed',
} as const;
const byProxy = {
  code: 'OBJECT_IGNORED',
  level: 'note',
  message:
    'Cannot make rules for a load-balancer address with ipMode Proxy: its traffic goes through the load balancer',
  hint: 'No change is needed; profiles with a kubeProxyVersion before 1.30 serve it, as kube-proxy did',
} as const;
