import { serviceLimits } from '../model/limits.ts';
import type { Protocol } from '../model/model.ts';
import { report, mappingsIn, numberIn, type FieldSpot, textIn, valueIn } from './fields.ts';
import { checkName } from './names.ts';
import { portIn, protocolIn } from './ports.ts';
import { quote } from './text.ts';

export interface ReadPort {
  /** `''` for a port without a name. */
  readonly name: string;
  readonly protocol: Protocol;
  readonly port: number;
  /** 0: none. */
  readonly nodePort: number;
  /** A number as text, or the name of a container port. Rules use slices; a changed value means that slices will change. */
  readonly targetPort: string;
  /** The port's name in the base, if the change renames it: its endpoints still have the old one. */
  readonly formerName?: string;
  /** The position in the manifest. */
  readonly index: number;
}

interface PortExpectations {
  /** The type has node ports. */
  readonly hasNodePorts: boolean;
  readonly mayBeEmpty: boolean;
}

/** Reads `spec.ports`; names, pairs of port and protocol, and pairs of node port and protocol must be unique. */
export function readPorts(spec: FieldSpot, expected: PortExpectations): readonly ReadPort[] {
  const spots = mappingsIn(spec, 'ports');
  if (spots.length > serviceLimits.portsMax) {
    report(spec, ['ports'], tooMany(spots.length));
    return [];
  }
  if (spots.length === 0 && !expected.mayBeEmpty && !spec.subject.broken) {
    report(spec, ['ports'], {
      code: 'FIELD_MISSING',
      level: 'warning',
      message: 'Cannot make rules for a Service without ports',
      hint: 'Write spec.ports; the API server refuses the Service without them',
    });
  }
  const seen = new Set<string>();
  return spots.flatMap((spot) => {
    const port = readPort(spot, expected, spots.length > 1);
    return port && isNew(spot, port, seen) ? [port] : [];
  });
}

function readPort(spot: FieldSpot, expected: PortExpectations, mustHaveName: boolean): ReadPort | undefined {
  const name = textIn(spot, 'name') ?? '';
  const protocol = protocolIn(spot);
  const port = portIn(spot, 'port', 1);
  const nodePort = portIn(spot, 'nodePort', 0) ?? 0;
  if (name !== '') checkName(spot, ['name'], name, 'label');
  else if (mustHaveName) report(spot, ['name'], withoutName);
  if (valueIn(spot, 'port') === undefined) report(spot, ['port'], withoutPort);
  if (nodePort > 0 && !expected.hasNodePorts) report(spot, ['nodePort'], strayNodePort);
  if (port === undefined) return undefined;
  return { name, protocol, port, nodePort, targetPort: readTarget(spot, port), index: spot.index };
}

/** `targetPort` is a number or a name; 0 and `""` mean the port itself (`SetDefaults_Service`). */
function readTarget(spot: FieldSpot, port: number): string {
  const value = valueIn(spot, 'targetPort');
  if (value === undefined || value === '' || value === 0) return String(port);
  if (typeof value === 'string') {
    checkName(spot, ['targetPort'], value, 'portName');
    return value;
  }
  return typeof value === 'number' ? String(portIn(spot, 'targetPort', 1)) : String(numberIn(spot, 'targetPort'));
}

/** Checks that a port is unique; false (with a problem) for a duplicate. */
function isNew(spot: FieldSpot, port: ReadPort, seen: Set<string>): boolean {
  const { name, protocol, nodePort } = port;
  if (name !== '' && !enter(seen, `name ${name}`)) {
    report(spot, ['name'], {
      code: 'FIELD_VALUE',
      message: `Cannot name two ports ${quote(name)}`,
      hint: 'Use a different name for every port',
    });
    return false;
  }
  if (!enter(seen, `port ${port.port}/${protocol}`)) {
    report(spot, ['port'], {
      code: 'FIELD_VALUE',
      message: `Cannot serve port ${port.port}/${protocol} twice in one Service`,
      hint: 'Remove one of the two, or change its port or protocol',
    });
    return false;
  }
  if (nodePort > 0 && !enter(seen, `node port ${nodePort}/${protocol}`)) {
    report(spot, ['nodePort'], {
      code: 'NODE_PORT_CONFLICT',
      message: `Cannot open node port ${nodePort}/${protocol} for two ports of one Service`,
      hint: 'Choose another node port, or remove it',
    });
    return false;
  }
  return true;
}

/** Adds `thing`. @returns whether it was not in the set */
function enter(seen: Set<string>, thing: string): boolean {
  return seen.size < seen.add(thing).size;
}

const tooMany = (ports: number) =>
  ({
    code: 'INPUT_TOO_LARGE',
    message: `Cannot read a Service with ${ports} ports: the limit is ${serviceLimits.portsMax}`,
    hint: 'Split the Service: EndpointSlices have no more ports either',
  }) as const;
const withoutName = {
  code: 'FIELD_MISSING',
  message: 'Cannot distinguish the ports of a Service: one has no name',
  hint: 'Name every port of a Service with more than one',
} as const;
const withoutPort = {
  code: 'FIELD_MISSING',
  message: 'Cannot serve a port without its number',
  hint: 'Set port to a number from 1 to 65535',
} as const;
const strayNodePort = {
  code: 'FIELD_VALUE',
  message:
    'Cannot use nodePort here: only types NodePort and LoadBalancer have node ports, and headless Services have none',
  hint: 'Remove it, or change the type',
} as const;
