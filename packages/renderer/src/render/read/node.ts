import { drainConditions, type Ineligibility } from '@sluice/bundle';
import type { Problem } from '@sluice/netfilter';
import type { KubeObject, Path } from '../model/kube.ts';
import type { PerFamily } from '../model/model.ts';
import { checkAddress, checkCidr, familyOf } from './addresses.ts';
import { report, mappingIn, mappingsIn, pathText, type FieldSpot, textIn, textsIn, valueIn } from './fields.ts';
import { checkName, identify } from './names.ts';
import { quote } from './text.ts';

/** A Node object, or a node of the config in the same form. */
export interface ReadNode {
  readonly name: string;
  /** Absent for a node that only the config names. */
  readonly object: KubeObject | undefined;
  readonly labels: ReadonlyMap<string, string>;
  /** InternalIP before ExternalIP. */
  readonly address: PerFamily<string>;
  /** Every InternalIP and ExternalIP. */
  readonly addresses: readonly string[];
  readonly podCIDR: PerFamily<string>;
  readonly cores: number | undefined;
  /** Why load balancers must not send to it. */
  readonly ineligible?: Ineligibility;
}

export const zoneLabel = 'topology.kubernetes.io/zone';

/**
 * Reads one Node: labels, addresses, pod CIDRs, cores, and whether it is to end. Other fields have no effect on rules.
 * @returns undefined when it cannot be used; `problems` receives the reason
 */
export function readNode(object: KubeObject, problems: Problem[]): ReadNode | undefined {
  const identity = identify(object, problems, 'subdomain');
  if (!identity) return undefined;
  const { top, name } = identity;
  const spec = mappingIn(top, 'spec');
  const status = mappingIn(top, 'status');
  const ineligible = readIneligibility(top, spec, status);
  const node: ReadNode = {
    name,
    object,
    labels: readLabels(identity.labels),
    ...(status ? readAddresses(status) : { address: {}, addresses: [] }),
    podCIDR: spec ? readPodCIDRs(spec) : {},
    cores: status && readCores(status),
    ...(ineligible && { ineligible }),
  };
  return top.subject.broken ? undefined : node;
}

const autoscalerTaint = 'ToBeDeletedByClusterAutoscaler';

/** As kube-proxy (`pkg/proxy/healthcheck/proxy_health.go`, KEP-3836), and what an administrator says of a drain. */
function readIneligibility(top: FieldSpot, spec?: FieldSpot, status?: FieldSpot): Ineligibility | undefined {
  const metadata = mappingIn(top, 'metadata');
  if (metadata && valueIn(metadata, 'deletionTimestamp') !== undefined) return 'deletionTimestamp';
  const taints = spec ? mappingsIn(spec, 'taints') : [];
  if (taints.some((taint) => textIn(taint, 'key') === autoscalerTaint)) return autoscalerTaint;
  const conditions = status ? mappingsIn(status, 'conditions') : [];
  const types = conditions.filter((one) => textIn(one, 'status') === 'True').map((one) => textIn(one, 'type'));
  return drainConditions.find((type) => types.includes(type));
}

function readLabels(labels: FieldSpot | undefined): ReadonlyMap<string, string> {
  const map = new Map<string, string>();
  if (!labels) return map;
  for (const key of Object.keys(labels.value).toSorted()) {
    const value = textIn(labels, key);
    if (value === undefined) continue;
    if (key === zoneLabel) checkName(labels, [key], value, 'labelValue');
    map.set(key, value);
  }
  return map;
}

/** The first InternalIP of each family, else the first ExternalIP, and all of them; host names and DNS names are ignored. */
function readAddresses(status: FieldSpot): Pick<ReadNode, 'address' | 'addresses'> {
  const addresses: string[] = [];
  const found: Record<'InternalIP' | 'ExternalIP', Record<string, string>> = { InternalIP: {}, ExternalIP: {} };
  for (const spot of mappingsIn(status, 'addresses')) {
    const type = textIn(spot, 'type');
    const text = textIn(spot, 'address');
    if ((type !== 'InternalIP' && type !== 'ExternalIP') || text === undefined || text === '') continue;
    const address = checkAddress(spot, ['address'], text);
    if (address === undefined) continue;
    addresses.push(address);
    found[type][familyOf(address)] ??= address;
  }
  return { address: { ...found.ExternalIP, ...found.InternalIP }, addresses };
}

/** `podCIDRs`, or the old field `podCIDR`; the first of each family. */
function readPodCIDRs(spec: FieldSpot): PerFamily<string> {
  const old = textIn(spec, 'podCIDR') ?? '';
  const list = textsIn(spec, 'podCIDRs');
  const texts = list.length > 0 ? list : old === '' ? [] : [old];
  const found: Record<string, string> = {};
  for (const [index, text] of texts.entries()) {
    const tail: Path = list.length > 0 ? ['podCIDRs', index] : ['podCIDR'];
    const cidr = checkCidr(spec, tail, text);
    if (cidr !== undefined) found[familyOf(cidr)] ??= cidr;
  }
  return found;
}

/** More cores than any machine has. */
const coresMax = 65_536;

/** `status.capacity.cpu`, rounded up to whole cores: `3920m` is a machine with 4 cores, some of it reserved. */
function readCores(status: FieldSpot): number | undefined {
  const capacity = mappingIn(status, 'capacity');
  const value = capacity && valueIn(capacity, 'cpu');
  if (!capacity || value === undefined) return undefined;
  const quantity = typeof value === 'number' ? value : readQuantity(textIn(capacity, 'cpu') ?? '');
  const cores = quantity === undefined ? 0 : Math.ceil(quantity);
  if (cores >= 1 && cores <= coresMax) return cores;
  if (typeof value !== 'string' && typeof value !== 'number') return undefined;
  report(capacity, ['cpu'], {
    code: 'FIELD_VALUE',
    message: `Cannot read ${pathText(capacity, ['cpu'])}: ${quote(String(value))} is not a number of cores`,
    hint: 'Write a quantity such as 4 or 3920m',
  });
  return undefined;
}

/** The powers of ten of a quantity's suffixes (`resource.Quantity`, decimal form). */
const exponents: Readonly<Record<string, number>> = { n: -9, u: -6, m: -3, '': 0, k: 3, M: 6 };

const form = /^([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(n|u|m|k|M|)(?:[eE]([+-]?[0-9]{1,2}))?$/;

/**
 * Reads a Kubernetes quantity in decimal form, as CPU counts are written.
 * @param text `4`, `3920m`, `1.5`, `2e1`
 * @returns undefined for another form; binary suffixes (`Ki`) are for bytes and refused
 */
export function readQuantity(text: string): number | undefined {
  const [, digits, suffix = '', exponent] = form.exec(text) ?? [];
  if (digits === undefined || (suffix !== '' && exponent !== undefined)) return undefined;
  return Number(`${digits}e${(exponents[suffix] ?? 0) + Number(exponent ?? 0)}`);
}
