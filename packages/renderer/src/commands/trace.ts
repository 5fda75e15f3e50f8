import { type Family, parseAddress, type Packet, type Problem, type TransportProtocol } from '@sluice/bundle';
import { printProblems } from '../emit/problems.ts';
import { printTrace } from '../emit/review/trace.ts';
import { exitCodes } from '../exit.ts';
import { openTree } from '../load/tree.ts';
import type { Layout } from '../review/layout.ts';
import { traceOnNode } from '../review/trace-node.ts';
import { bundleAt } from './bundle-at.ts';
import { reading, Stopped } from './failure.ts';
import { print, progress, say } from './progress.ts';

export interface TraceOptions {
  readonly node: string;
  readonly from: string;
  readonly to: string;
  readonly in?: string;
  readonly layout: Layout;
  readonly output: 'text' | 'json';
}

/** `sluice trace`: a packet's ways through the rules of a node. */
export function traceCommand(dir: string, options: TraceOptions): number {
  const to = readTarget(options.to);
  const isOwn = options.from === 'node';
  if (!isOwn && parseAddress(options.from)?.family !== to.family) {
    throw new Stopped(badOption('--from', options.from, `it is neither \`node\` nor an ${to.family} address`));
  }
  progress(`reading ${dir}`);
  const from = isOwn ? 'node' : parseAddress(options.from)!.text;
  const question = {
    ...to,
    node: options.node,
    from,
    layout: options.layout,
    ...(options.in === undefined ? {} : { in: options.in }),
  };
  const traced = reading(dir, () => traceOnNode(bundleAt(dir, openTree), question));
  if (!('ways' in traced)) {
    say(printProblems(traced));
    return exitCodes.problem;
  }
  print(printTrace(traced, options.output));
  return exitCodes.done;
}

interface Target extends Pick<Packet, 'destination' | 'port' | 'protocol'> {
  readonly family: Family;
}

const targetForm = /^(?:\[([0-9a-fA-F:.]+)\]|([0-9.]+)):([1-9][0-9]{0,4})\/(tcp|udp|sctp)$/i;

function readTarget(text: string): Target {
  const match = targetForm.exec(text);
  const address = parseAddress(match?.[1] ?? match?.[2] ?? '');
  const port = Number(match?.[3]);
  if (!match || !address || port > 65_535) {
    throw new Stopped(badOption('--to', text, 'it is not of the form 10.96.0.10:80/tcp or [fd00::1]:53/udp'));
  }
  const protocol = (match[4] as string).toLowerCase() as TransportProtocol;
  return { destination: address.text, port, protocol, family: address.family };
}

function badOption(option: string, value: string, why: string): Problem {
  return {
    code: 'INPUT_UNREADABLE',
    level: 'error',
    message: `Cannot take ${option} ${JSON.stringify(value)}: ${why}`,
    hint: 'Write --from 10.244.1.7 --to 10.96.0.10:80/tcp',
  };
}
