import { serviceOf } from '@sluice/bundle';
import {
  families,
  addressOfEndpoint,
  compareText,
  type Family,
  namesNear,
  type Packet,
  printEndpoint,
  Stopped,
  type TransportProtocol,
} from '@sluice/netfilter';
import { portName } from '../facts/facts.ts';
import { factsIn } from '../facts/read.ts';
import type { BundleView } from '../bundle/view.ts';

/** A Service port as an operator writes it. */
export interface ServiceTarget {
  /** `shop/web` */
  readonly service: string;
  /** The name or number of the port; left out: the only one. */
  readonly servicePort?: string;
  readonly servicePortProtocol?: TransportProtocol;
}

/** The ClusterIP frontend of a Service port. */
interface ClusterFrontend extends Pick<Packet, 'family' | 'destination' | 'protocol' | 'port'> {
  /** `shop/web:http`, or `shop/web` for a port without a name. */
  readonly key: string;
}

/** The ClusterIP of each port of a Service in a profile, by key, IPv4 first. */
function clusterFrontends(view: BundleView, profile: string, service: string): readonly ClusterFrontend[] {
  const found = new Map<string, ClusterFrontend>();
  for (const family of families)
    for (const port of factsIn(view, { profile, service, family })?.ports ?? [])
      for (const { text } of port.addresses.filter(({ kind }) => kind === 'cluster'))
        found.set(`${text}/${port.protocol}`, {
          key: portName(port),
          family,
          protocol: port.protocol,
          ...splitAddress(text),
        });
  return [...found.values()].toSorted((a, b) => compareText(a.key, b.key) || compareText(a.family, b.family));
}

const splitAddress = (text: string): Pick<ClusterFrontend, 'destination' | 'port'> => ({
  destination: addressOfEndpoint(text),
  port: Number(text.slice(text.lastIndexOf(':') + 1)),
});

/**
 * The ClusterIP frontend that a target names.
 * @param family the client's; undefined: IPv4 where the Service has it
 * @throws Stopped with a problem that lists the existing ones
 */
export function frontendOf(
  view: BundleView,
  profile: string,
  target: ServiceTarget,
  family: Family | undefined,
): ClusterFrontend {
  const { service, servicePort, servicePortProtocol } = target;
  const all = clusterFrontends(view, profile, service);
  if (all.length === 0)
    throw missing(target, `profile ${profile} has no ClusterIP of ${service}`, noService(view, profile, service));
  const matching = all.filter(
    ({ key, port, protocol }) =>
      (servicePort === undefined || key === `${service}:${servicePort}` || String(port) === servicePort) &&
      (servicePortProtocol === undefined || protocol === servicePortProtocol),
  );
  const chosen = matching.filter((one) => one.family === (family ?? matching[0]?.family));
  const [only] = chosen;
  if (only && chosen.length === 1) return only;
  const why =
    matching.length === 0
      ? 'the Service does not have this port'
      : chosen.length === 0
        ? `the Service has no ${family} address`
        : `${chosen.length} ports match`;
  throw missing(target, why, `${service} has ${all.map(describe).join(', ')}`);
}

const describe = ({ key, destination, port, protocol }: ClusterFrontend): string =>
  `${key} at ${printEndpoint(destination, port)}/${protocol}`;

function noService(view: BundleView, profile: string, service: string): string {
  const paths = [...view.files.keys()].filter((path) => path.startsWith(`profiles/${profile}/services/`));
  const names = [...new Set(paths.map(serviceOf))];
  if (names.length === 0) return 'The profile has no Services';
  return `It has ${namesNear(service, names)}; headless and ExternalName Services have no ClusterIP`;
}

function missing({ service, servicePort, servicePortProtocol }: ServiceTarget, why: string, hint: string): Stopped {
  const port = servicePort === undefined ? '' : `:${servicePort}`;
  const protocol = servicePortProtocol === undefined ? '' : `/${servicePortProtocol}`;
  const message = `Cannot trace to ${service}${port}${protocol}: ${why}`;
  return new Stopped({ code: 'INPUT_EMPTY', level: 'error', message, hint });
}
