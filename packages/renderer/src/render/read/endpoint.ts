import { compareText, type Family } from '@sluice/netfilter';
import { checkRoutable, familyOf, familyWord } from './addresses.ts';
import {
  report,
  emptyIn,
  flagIn,
  mappingIn,
  mappingsIn,
  pathText,
  type FieldSpot,
  textIn,
  textsIn,
  valueIn,
} from './fields.ts';
import { betaSlices, checkName, type NameForm, nameIn } from './names.ts';
import { zoneLabel } from './node.ts';

/** One address behind a Service, before its ports are known. */
export interface ReadEndpoint {
  readonly address: string;
  readonly nodeName: string | undefined;
  readonly zone: string | undefined;
  readonly ready: boolean;
  readonly serving: boolean;
  readonly terminating: boolean;
  /** Sorted; empty: no hints. */
  readonly hintZones: readonly string[];
  readonly hintNodes: readonly string[];
}

const hostnameLabel = 'kubernetes.io/hostname';
const noHints: readonly string[] = [];

/**
 * Reads one endpoint of an EndpointSlice.
 * Missing conditions mean ready, serving and not terminating, as in kube-proxy (operations: EndpointSlice).
 * @param family from the slice's addressType
 */
export function readEndpoint(spot: FieldSpot, family: Family): ReadEndpoint | undefined {
  const address = readFirstAddress(spot, family);
  const conditions = mappingIn(spot, 'conditions');
  const hints = mappingIn(spot, 'hints');
  const endpoint = {
    address: address ?? '',
    ...readLocation(spot),
    ready: (conditions && flagIn(conditions, 'ready')) ?? true,
    serving: (conditions && flagIn(conditions, 'serving')) ?? true,
    terminating: (conditions && flagIn(conditions, 'terminating')) ?? false,
    hintZones: hints ? readHints(hints, 'forZones', 'labelValue') : noHints,
    hintNodes: hints ? readHints(hints, 'forNodes', 'subdomain') : noHints,
  };
  return address === undefined ? undefined : endpoint;
}

/** The node and the zone; of v1beta1 as the API server converts them (`pkg/apis/discovery/v1beta1/conversion.go`). */
function readLocation(spot: FieldSpot): Pick<ReadEndpoint, 'nodeName' | 'zone'> {
  const nodeName = nameIn(spot, 'nodeName', 'subdomain');
  if (spot.subject.object.apiVersion !== betaSlices) {
    return { nodeName, zone: unlessEmpty(spot, 'zone', 'labelValue') };
  }
  const topology = mappingIn(spot, 'topology') ?? emptyIn(spot, 'topology');
  return {
    nodeName: nodeName ?? unlessEmpty(topology, hostnameLabel, 'subdomain'),
    zone: unlessEmpty(topology, zoneLabel, 'labelValue'),
  };
}

const unlessEmpty = (spot: FieldSpot, key: string, form: NameForm): string | undefined =>
  valueIn(spot, key) === '' ? undefined : nameIn(spot, key, form);

/** The first address. Further ones are the same endpoint, and kube-proxy ignores them. */
function readFirstAddress(spot: FieldSpot, family: Family): string | undefined {
  const [first, second] = textsIn(spot, 'addresses');
  if (first === undefined) {
    if (!spot.subject.broken) report(spot, ['addresses'], withoutAddress);
    return undefined;
  }
  if (second !== undefined) report(spot, ['addresses', 1], moreAddresses);
  const address = checkRoutable(spot, ['addresses', 0], first);
  if (address === undefined || familyOf(address) === family) return address;
  report(spot, ['addresses', 0], {
    code: 'ADDRESS_WRONG_FAMILY',
    message: `Cannot use ${address} as ${pathText(spot, ['addresses', 0])}: the slice has addressType ${familyWord[family]}`,
    hint: 'Put the addresses of each family into slices of their own',
  });
  return undefined;
}

function readHints(hints: FieldSpot, key: string, form: 'labelValue' | 'subdomain'): readonly string[] {
  const names: string[] = [];
  for (const spot of mappingsIn(hints, key)) {
    const name = textIn(spot, 'name') ?? '';
    if (name === '') report(spot, ['name'], withoutHintName);
    else if (checkName(spot, ['name'], name, form) && !names.includes(name)) names.push(name);
  }
  return names.toSorted(compareText);
}

const withoutAddress = {
  code: 'FIELD_MISSING',
  message: 'Cannot route to an endpoint without addresses',
  hint: 'Write its address, or remove the endpoint',
} as const;
const moreAddresses = {
  code: 'OBJECT_IGNORED',
  level: 'warning',
  message: 'Cannot use more than the first address of an endpoint: kube-proxy ignores the others',
  hint: 'Write one endpoint for each address',
} as const;
const withoutHintName = {
  code: 'FIELD_MISSING',
  message: 'Cannot read a hint without a name',
  hint: 'Write the name of the zone or Node',
} as const;
