import {
  type Family,
  parseAddress,
  type Packet,
  type Problem,
  refusal,
  type TransportProtocol,
} from '@sluice/netfilter';
import type { Layout } from '../../flows/layout.ts';
import type { ServiceTarget } from '../../trace/service-target.ts';
import type { LiveQuestion } from '../../trace/trace-live.ts';
import type { ServiceQuestion, TraceQuestion } from '../../trace/trace-node.ts';
import { Stopped } from '@sluice/renderer/commands/failure/failure.ts';

/** The options that say which packet to trace. */
export interface FlowOptions {
  readonly from: string;
  readonly to: string;
  readonly in?: string;
}

/** The options that say which packet to trace on which node of a bundle. */
export interface PacketOptions extends FlowOptions {
  readonly node: string;
  readonly layout: Layout;
}

/** The question that the options ask. @throws Stopped for an address or a destination that cannot be parsed */
export function questionOf(options: PacketOptions): TraceQuestion | ServiceQuestion {
  const to = readTarget(options.to);
  return {
    ...to,
    node: options.node,
    from: readSource(options.from, 'family' in to ? to.family : undefined),
    layout: options.layout,
    ...(options.in === undefined ? {} : { in: options.in }),
  };
}

/** The question to an observed node. @throws Stopped also for a Service: an observation has no names of Services */
export function liveQuestionOf(options: FlowOptions): LiveQuestion {
  const to = readTarget(options.to);
  if ('service' in to)
    throw new Stopped(
      badOption('--to', options.to, 'an observation has no names of Services: pass an address and a port'),
    );
  const from = readSource(options.from, to.family);
  return { ...to, from, ...(options.in === undefined ? {} : { in: options.in }) };
}

/** @param family the required address family; undefined: either */
function readSource(text: string, family: Family | undefined): string {
  if (text === 'node') return text;
  const address = parseAddress(text);
  if (address && (family === undefined || address.family === family)) return address.text;
  throw new Stopped(
    badOption('--from', text, `it is neither \`node\` nor a valid ${family ?? 'IPv4 or IPv6'} address`),
  );
}

interface AddressTarget extends Pick<Packet, 'destination' | 'port' | 'protocol'> {
  readonly family: Family;
}

/** Without a protocol it is TCP. */
const targetForm = /^(?:\[([0-9a-fA-F:.]+)\]|([0-9.]+)):([1-9][0-9]{0,4})(?:\/(tcp|udp|sctp))?$/i;
/** `shop/web`, `shop/web:80`, `shop/web:http`, `shop/dns:53/udp`. */
const serviceForm = /^([a-z0-9-]+\/[a-z0-9-]+)(?::([a-z0-9-]+))?(?:\/(tcp|udp|sctp))?$/i;

function readTarget(text: string): AddressTarget | ServiceTarget {
  const [, service, servicePort, itsProtocol] = serviceForm.exec(text) ?? [];
  if (service !== undefined) {
    return {
      service,
      ...(servicePort === undefined ? {} : { servicePort }),
      ...(itsProtocol === undefined ? {} : { servicePortProtocol: itsProtocol.toLowerCase() as TransportProtocol }),
    };
  }
  const match = targetForm.exec(text);
  const address = parseAddress(match?.[1] ?? match?.[2] ?? '');
  const port = Number(match?.[3]);
  if (!match || !address || port > 65_535) {
    throw new Stopped(badOption('--to', text, 'it is not of the form 10.96.0.10:80, [fd00::1]:53/udp or shop/web:80'));
  }
  const protocol = (match[4] ?? 'tcp').toLowerCase() as TransportProtocol;
  return { destination: address.text, port, protocol, family: address.family };
}

/** The problem of an option whose value cannot be used. @param why as a clause without a full stop */
export const badOption = (option: string, value: string, why: string): Problem =>
  refusal(
    'INPUT_UNREADABLE',
    `Cannot use ${option} ${JSON.stringify(value)}: ${why}`,
    'Write --from 10.244.1.7 --to 10.96.0.10:80/tcp, or --to shop/web:80 for the ClusterIP of a Service',
  );
