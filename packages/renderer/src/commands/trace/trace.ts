import { type Family, parseAddress, type Packet, type Problem, type TransportProtocol } from '@sluice/netfilter';
import { isProblem, observationProblem } from '@sluice/bundle';
import { printLiveTrace, printTrace } from '../../emit/review/trace.ts';
import { exitCodes } from '../../exit.ts';
import { openTree } from '../../load/tree.ts';
import type { Layout } from '../../review/flows/layout.ts';
import type { ServiceTarget } from '../../review/trace/service-target.ts';
import { traceLive } from '../../review/trace/trace-live.ts';
import { traceOnNode } from '../../review/trace/trace-node.ts';
import { bundleAt } from '../bundle/bundle-at.ts';
import { observationAt, placesIn } from '../input/observation.ts';
import { reading, Stopped } from '../failure/failure.ts';
import { print, progress } from '../output/progress.ts';
import { reportProblems } from '../output/output.ts';

export interface TraceOptions {
  readonly node?: string;
  /** A file of `sluiced observe`. */
  readonly live?: string;
  readonly from: string;
  readonly to: string;
  readonly in?: string;
  readonly layout: Layout;
  readonly output: 'text' | 'json';
}

/** `sluice trace`: prints the paths of a packet through the rules of a node. */
export function traceCommand(dir: string, options: TraceOptions): number {
  const to = readTarget(options.to);
  const from = readSource(options.from, 'family' in to ? to.family : undefined);
  if (options.live !== undefined) return traceObserved(options.live, { ...options, from }, to);
  if (options.node === undefined)
    throw new Stopped(badOption('--node', '', 'a bundle has several nodes: pass --node NAME, or --live FILE'));
  progress(`reading ${dir}`);
  const question = {
    ...to,
    node: options.node,
    from,
    layout: options.layout,
    ...(options.in === undefined ? {} : { in: options.in }),
  };
  const traced = reading(dir, () => traceOnNode(bundleAt(dir, openTree), question));
  if (!('ways' in traced)) {
    reportProblems(traced);
    return exitCodes.problem;
  }
  print(printTrace(traced, options.output));
  return exitCodes.done;
}

/** Prints the paths of a packet through what a kernel held. */
function traceObserved(path: string, options: TraceOptions, to: AddressTarget | ServiceTarget): number {
  if ('service' in to)
    throw new Stopped(
      badOption('--to', options.to, 'an observation has no names of Services: pass an address and a port'),
    );
  progress(`reading ${path}`);
  const { seen, text } = observationAt(path);
  if (options.node !== undefined && options.node !== seen.node)
    throw new Stopped(
      observationProblem(`Cannot trace on node ${options.node} with ${path}: it is of node ${seen.node}`),
    );
  const { from, in: incoming } = options;
  const question = { ...to, from, ...(incoming === undefined ? {} : { in: incoming }) };
  const traced = traceLive(seen, question, placesIn(path, text));
  if (isProblem(traced)) {
    reportProblems([traced]);
    return exitCodes.problem;
  }
  print(printLiveTrace(traced, options.output));
  return exitCodes.done;
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

const targetForm = /^(?:\[([0-9a-fA-F:.]+)\]|([0-9.]+)):([1-9][0-9]{0,4})\/(tcp|udp|sctp)$/i;
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
    throw new Stopped(
      badOption('--to', text, 'it is not of the form 10.96.0.10:80/tcp, [fd00::1]:53/udp or shop/web:80'),
    );
  }
  const protocol = (match[4] as string).toLowerCase() as TransportProtocol;
  return { destination: address.text, port, protocol, family: address.family };
}

function badOption(option: string, value: string, why: string): Problem {
  return {
    code: 'INPUT_UNREADABLE',
    level: 'error',
    message: `Cannot use ${option} ${JSON.stringify(value)}: ${why}`,
    hint: 'Write --from 10.244.1.7 --to 10.96.0.10:80/tcp, or --to shop/web:80 for the ClusterIP of a Service',
  };
}
