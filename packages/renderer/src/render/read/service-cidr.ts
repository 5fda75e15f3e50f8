import type { Problem } from '@sluice/netfilter';
import type { KubeObject } from '../model/kube.ts';
import { checkCidr, familyOf } from './addresses.ts';
import { report, emptyIn, mappingIn, mappingsIn, type FieldSpot, textIn, textsIn, valueIn } from './fields.ts';
import { identify } from './names.ts';

/** A network from which the API server allocates ClusterIPs. */
export interface ReadServiceCIDR {
  readonly name: string;
  readonly object: KubeObject;
  /** One or two, one of each family, in the object's order. */
  readonly cidrs: readonly string[];
  /** New addresses may be allocated; false: it is being deleted or not ready, and only keeps existing ones. */
  readonly isOpen: boolean;
}

/**
 * Reads one ServiceCIDR (`ValidateServiceCIDR` in `pkg/apis/networking/validation/validation.go`).
 * @returns undefined when it cannot be used; `problems` receives the reason
 */
export function readServiceCIDR(object: KubeObject, problems: Problem[]): ReadServiceCIDR | undefined {
  const identity = identify(object, problems, 'subdomain');
  if (!identity) return undefined;
  const { top, name } = identity;
  const cidrs = readCidrs(mappingIn(top, 'spec') ?? emptyIn(top, 'spec'));
  const isOpen = !isTerminating(top) && isReady(top);
  return top.subject.broken ? undefined : { name, object, cidrs, isOpen };
}

function readCidrs(spec: FieldSpot): readonly string[] {
  const texts = textsIn(spec, 'cidrs');
  if (texts.length === 0 && !spec.subject.broken) report(spec, ['cidrs'], missing);
  const cidrs = texts.flatMap((text, index) => checkCidr(spec, ['cidrs', index], text) ?? []);
  if (texts.length > 2) report(spec, ['cidrs', 2], tooMany);
  else if (new Set(cidrs.map(familyOf)).size < cidrs.length) report(spec, ['cidrs', 1], sameFamily);
  return cidrs;
}

function isTerminating(top: FieldSpot): boolean {
  const metadata = mappingIn(top, 'metadata');
  return metadata !== undefined && valueIn(metadata, 'deletionTimestamp') !== undefined;
}

/** Ready unless a condition denies it, as in the API server (`isReady`, `ipallocator/cidrallocator.go`). */
function isReady(top: FieldSpot): boolean {
  const status = mappingIn(top, 'status');
  const conditions = status ? mappingsIn(status, 'conditions') : [];
  const ready = conditions.find((condition) => textIn(condition, 'type') === 'Ready');
  return ready === undefined || textIn(ready, 'status') === 'True';
}

const missing = {
  code: 'FIELD_MISSING',
  message: 'Cannot read a ServiceCIDR without spec.cidrs',
  hint: 'Write one CIDR, or one of each family',
} as const;
const tooMany = {
  code: 'FIELD_VALUE',
  message: 'Cannot use more than two CIDRs of one ServiceCIDR',
  hint: 'Write one CIDR, or one of each family; use another ServiceCIDR for further ones',
} as const;
const sameFamily = {
  code: 'FIELD_VALUE',
  message: 'Cannot use two CIDRs of one family in one ServiceCIDR',
  hint: 'Use a separate ServiceCIDR for each',
} as const;
