import type { Family, Problem } from '@sluice/netfilter';
import type { KubeObject, Path } from '../model/kube.ts';
import type { Protocol } from '../model/model.ts';
import { type ReadEndpoint, readEndpoint } from './endpoint.ts';
import { report, mappingsIn, type FieldSpot, textIn, valueIn } from './fields.ts';
import { checkName, type ForeignLabel, foreignLabelOfSlice, type Identity, identify } from './names.ts';
import { portIn, protocolIn } from './ports.ts';
import { quote } from './text.ts';

/** An EndpointSlice, or an Endpoints object, which is converted to slices. */
export interface ReadSlice {
  readonly kind: 'EndpointSlice' | 'Endpoints';
  /** `shop/web-x7k2p`. */
  readonly key: string;
  readonly namespace: string;
  readonly name: string;
  readonly object: KubeObject;
  /** `shop/web`; `''`: the slice has no Service, and only replaces another slice of its name. */
  readonly service: string;
  readonly foreign: ForeignLabel | undefined;
  /** Mirrored from an Endpoints object by the API server's controller. */
  readonly mirrored: boolean;
  /** One for an EndpointSlice, one per subset and family for Endpoints; none for addressType FQDN. */
  readonly parts: readonly SlicePart[];
}

/** Endpoints of one family with the same ports. */
export interface SlicePart {
  readonly family: Family;
  readonly ports: readonly SlicePort[];
  readonly endpoints: readonly ReadEndpoint[];
  /** Its path in the object. */
  readonly path: Path;
}

export interface SlicePort {
  readonly name: string;
  readonly protocol: Protocol;
  readonly port: number;
  /** The position in the manifest. */
  readonly index: number;
}

const serviceLabel = 'kubernetes.io/service-name';
const managedLabel = 'endpointslice.kubernetes.io/managed-by';
const mirrorController = 'endpointslicemirroring-controller.k8s.io';

/**
 * Reads one EndpointSlice.
 * @returns undefined when it cannot be used; `problems` receives the reason
 */
export function readSlice(object: KubeObject, problems: Problem[]): ReadSlice | undefined {
  const identity = identify(object, problems, 'subdomain');
  if (!identity) return undefined;
  const { top, namespace, name, key, labels } = identity;
  const service = readOwner(identity);
  const foreign = foreignLabelOfSlice(labels);
  const mirrored = labels !== undefined && labels.value[managedLabel] === mirrorController;
  const common = { kind: 'EndpointSlice', key, namespace, name, object, foreign, mirrored } as const;
  // kube-proxy drops the slice without reading its content.
  if (service === '' && !top.subject.broken) return { ...common, service, parts: [] };
  const type = readAddressType(top);
  const parts: SlicePart[] = [];
  if (type === 'ipv4' || type === 'ipv6') {
    const ports = readSlicePorts(top);
    const endpoints = mappingsIn(top, 'endpoints').flatMap((spot) => readEndpoint(spot, type) ?? []);
    parts.push({ family: type, ports, endpoints, path: [] });
  }
  return top.subject.broken ? undefined : { ...common, service, parts };
}

/**
 * The Service of a slice, from its label.
 * @returns `''` where the label is missing or empty, with a warning: kube-proxy drops such a slice (`endpointSliceCacheKeys`)
 */
function readOwner({ top, namespace, labels }: Identity): string {
  const value = (labels && textIn(labels, serviceLabel)) ?? '';
  if (labels && value !== '') return checkName(labels, [serviceLabel], value, 'label') ? `${namespace}/${value}` : '';
  if (top.subject.broken) return '';
  report(top, ['metadata', 'labels', serviceLabel], {
    code: 'SLICE_WITHOUT_SERVICE',
    level: 'warning',
    message: `Cannot use these endpoints: the label ${serviceLabel} is missing or empty, so kube-proxy ignores the slice`,
    hint: `Add the label ${serviceLabel} with the name of the Service, or remove the slice`,
  });
  return '';
}

function readAddressType(top: FieldSpot): Family | 'FQDN' | undefined {
  const text = textIn(top, 'addressType');
  if (text === 'IPv4') return 'ipv4';
  if (text === 'IPv6') return 'ipv6';
  if (text === 'FQDN') {
    report(top, ['addressType'], {
      code: 'OBJECT_IGNORED',
      level: 'warning',
      message: 'Cannot make rules for endpoints with host names: kube-proxy ignores addressType FQDN',
      hint: 'Write addresses in slices of addressType IPv4 or IPv6',
    });
    return 'FQDN';
  }
  const missing = valueIn(top, 'addressType') === undefined;
  if (text !== undefined || missing) {
    report(top, ['addressType'], {
      code: missing ? 'FIELD_MISSING' : 'FIELD_VALUE',
      message: `Cannot read an EndpointSlice ${missing ? 'without addressType' : `of addressType ${quote(text ?? '')}`}`,
      hint: 'Write IPv4 or IPv6',
    });
  }
  return undefined;
}

/** The ports of a slice. The default name is `''`, as in the API server; a port without a number is ignored. */
function readSlicePorts(top: FieldSpot): readonly SlicePort[] {
  const ports: SlicePort[] = [];
  const names = new Set<string>();
  for (const spot of mappingsIn(top, 'ports')) {
    const port = readSlicePort(spot);
    if (!port) continue;
    if (names.has(port.name)) {
      report(spot, ['name'], {
        code: 'FIELD_VALUE',
        message: `Cannot name two ports of one slice ${quote(port.name)}`,
        hint: 'Name every port like its Service port',
      });
      continue;
    }
    names.add(port.name);
    ports.push(port);
  }
  return ports;
}

/** One port of a slice or of a subset. */
export function readSlicePort(spot: FieldSpot): SlicePort | undefined {
  const name = textIn(spot, 'name') ?? '';
  if (name !== '') checkName(spot, ['name'], name, 'label');
  const protocol = protocolIn(spot);
  const port = portIn(spot, 'port', 1);
  if (port !== undefined) return { name, protocol, port, index: spot.index };
  if (valueIn(spot, 'port') === undefined) {
    report(spot, ['port'], {
      code: 'OBJECT_IGNORED',
      level: 'warning',
      message: `Cannot route to port ${quote(name)}: it has no number, so kube-proxy ignores it`,
      hint: 'Set port to a number from 1 to 65535',
    });
  }
  return undefined;
}
