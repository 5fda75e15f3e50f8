import type { CommonScheduler, TrafficPolicy, ServiceType, WeightRule } from '../model/model.ts';
import type { Family, MaglevSize, Scheduler } from '@sluice/netfilter';
import type { KubeObject } from '../model/kube.ts';
import type { ForeignLabel } from './names.ts';
import type { ReadIngress } from './service-ingress.ts';
import type { ReadPort } from './service-ports.ts';

/** A Service whose fields are validated one by one, not yet together with other objects. */
export interface ReadService {
  /** `shop/web`. */
  readonly key: string;
  readonly namespace: string;
  readonly name: string;
  readonly object: KubeObject;
  readonly type: ServiceType;
  /** clusterIP is `None`. */
  readonly headless: boolean;
  readonly foreign: ForeignLabel | undefined;
  /** `app=web,tier=front`, sorted; `''`: endpoints are managed by hand or by another controller. */
  readonly selector: string;
  readonly clusterIPs: readonly string[];
  /** `spec.clusterIPs` is set, so the list is complete; otherwise `clusterIP` is only the first. */
  readonly listsAll: boolean;
  readonly ipFamilies: readonly Family[];
  readonly ipFamilyPolicy: FamilyPolicy | undefined;
  /** In the manifest's order. */
  readonly ports: readonly ReadPort[];
  readonly externalIPs: readonly string[];
  /** CIDRs in the manifest's order. */
  readonly sourceRanges: readonly string[];
  readonly ingress: readonly ReadIngress[];
  /** Addresses with `ipMode: Proxy`. */
  readonly proxiedIngress: readonly ReadIngress[];
  /** An annotation enables topology hints; kube-proxy before 1.31 uses them only then. */
  readonly asksForHints: boolean;
  readonly internalTrafficPolicy: TrafficPolicy;
  readonly externalTrafficPolicy: TrafficPolicy;
  readonly affinitySeconds: number | undefined;
  /** 0: none. */
  readonly healthCheckNodePort: number;
  /** `allocateLoadBalancerNodePorts`, by default true. */
  readonly allocateNodePorts: boolean;
  /** undefined: as the mode, or the profile of mode ipvs, chooses. */
  readonly scheduler: CommonScheduler | Scheduler | undefined;
  /** Of scheduler `maglev`. */
  readonly maglevSize: MaglevSize | undefined;
  readonly weights: readonly WeightRule[];
}

export type FamilyPolicy = 'SingleStack' | 'PreferDualStack' | 'RequireDualStack';
