import { canonicalAddress, compareText, type Family, printEndpoint } from '@sluice/bundle';
import { limits } from '../limits.ts';
import { type Flow, KernelError } from '../rollout/ports.ts';
import type { Command, Ran, Run } from './run.ts';

/**
 * Forgets the connections of some flows, of TCP only those that nobody has answered yet: one process looks per family and protocol, one
 * more forgets what was found. Other connections are never touched: one of TCP that was answered in between is told by its state.
 *
 * @param conntrack the tool
 * @param local the machine's own addresses: only these have node ports
 * @returns how many connections were found; `limits.connectionsForgottenMax` commands forget them, and the rest times out
 */
export async function forgetFlows(
  flows: readonly Flow[],
  conntrack: string,
  local: Readonly<Record<Family, readonly string[]>>,
  run: Run,
): Promise<number> {
  const found: Tracked[] = [];
  for (const family of ['ipv4', 'ipv6'] as const) {
    for (const protocol of ['udp', 'tcp'] as const) {
      const wanted = flows.filter((flow) => flow.family === family && flow.protocol === protocol);
      if (wanted.length === 0) continue;
      const text = await must({ file: conntrack, args: ['-L', '-f', family, ...kindOf[protocol]] }, run);
      found.push(...choose(readTracked(text, family), wanted, new Set(local[family])));
    }
  }
  const commands = commandsFor(found).slice(0, limits.connectionsForgottenMax);
  if (commands.length > 0) await forget(commands, conntrack, run);
  return found.length;
}

/** UDP has no end of a connection; one of TCP ends by itself, unless its first packet was never answered. */
const kindOf = { udp: ['-p', 'udp'], tcp: ['-p', 'tcp', '--state', 'SYN_SENT'] } as const;

/** conntrack before 1.4.7 takes no batch: a few connections are forgotten by a process each. */
async function forget(commands: readonly (readonly string[])[], conntrack: string, run: Run): Promise<void> {
  const input = commands.map((args) => `${args.join(' ')}\n`).join('');
  const batch = await run({ file: conntrack, args: ['-R', '-'], input });
  if (batch.exitCode === 0) return;
  if (commands.length > limits.connectionsForgottenSinglyMax) throw new KernelError(`${conntrack} -R -`, batch.why);
  // One that has timed out since then ends with 1, which is no failure.
  for (const args of commands) await run({ file: conntrack, args });
}

async function must(command: Command, run: Run): Promise<string> {
  const ran: Ran = await run(command);
  if (ran.exitCode !== 0) throw new KernelError(`${command.file} ${command.args.join(' ')}`, ran.why);
  return ran.stdout;
}

/** A connection: what its client asked for, and who answers. */
export interface Tracked {
  readonly family: Family;
  readonly protocol: keyof typeof kindOf;
  readonly client: string;
  readonly clientPort: number;
  readonly address: string;
  readonly port: number;
  /** `10.244.1.5:8080`; `address` and `port` again when no rule translated it. */
  readonly answers: string;
}

/** Reads what `conntrack -L` prints: the first four addresses and ports are those of the question, the others of the answer. */
export function readTracked(text: string, family: Family): readonly Tracked[] {
  return text.split('\n').flatMap((line) => {
    const protocol = line.startsWith('udp ') ? 'udp' : line.startsWith('tcp ') ? 'tcp' : undefined;
    if (protocol === undefined) return [];
    const values = (name: string): readonly string[] =>
      [...line.matchAll(new RegExp(` ${name}=(\\S+)`, 'g'))].map(([, value = '']) => value);
    const [client, from] = values('src').map((one) => canonicalAddress(one) ?? one);
    const [address] = values('dst').map((one) => canonicalAddress(one) ?? one);
    const [clientPort, fromPort] = values('sport').map(Number);
    const [port] = values('dport').map(Number);
    if (client === undefined || from === undefined || address === undefined) return [];
    if (clientPort === undefined || fromPort === undefined || port === undefined) return [];
    return [{ family, protocol, client, clientPort, address, port, answers: printEndpoint(from, fromPort) }];
  });
}

/** The connections that belong to the flows, each once, sorted by what was asked for. */
function choose(all: readonly Tracked[], flows: readonly Flow[], local: ReadonlySet<string>): readonly Tracked[] {
  const keyOf = (address: string | undefined, port: number, endpoint: string): string =>
    `${address ?? '*'} ${port} ${endpoint}`;
  const wanted = new Set(flows.map(({ address, port, endpoint }) => keyOf(address, port, endpoint ?? 'nobody')));
  const has = (address: string, port: number, answers: string): boolean =>
    wanted.has(keyOf(address, port, answers)) || (local.has(address) && wanted.has(keyOf(undefined, port, answers)));
  return all
    .filter(({ address, port, answers }) => {
      const isUntranslated = answers === printEndpoint(address, port);
      return has(address, port, answers) || (isUntranslated && has(address, port, 'nobody'));
    })
    .toSorted((a, b) => compareText(nameOf(a), nameOf(b)));
}

const nameOf = ({ client, clientPort, address, port }: Tracked): string => `${address} ${port} ${client} ${clientPort}`;

/**
 * One command takes the kernel a walk over its table. So many connections of UDP to one endpoint go with one command for all: one that
 * came in between is asked for anew, as if its first packet were its first.
 */
function commandsFor(found: readonly Tracked[]): readonly (readonly string[])[] {
  const ways = Map.groupBy(found, (one) => `${one.protocol} ${one.address} ${one.port} ${one.answers}`);
  return [...ways.values()].flatMap((group) => {
    const [first] = group;
    if (first?.protocol !== 'udp' || group.length <= limits.connectionsForgottenSinglyMax)
      return group.map(argumentsFor);
    return [argumentsForAll(first)];
  });
}

function argumentsForAll({ family, protocol, address, port, answers }: Tracked): readonly string[] {
  const colon = answers.lastIndexOf(':');
  const from = answers.slice(0, colon).replace(/^\[|\]$/g, '');
  const question = ['--orig-dst', address, '--orig-port-dst', String(port)];
  const answer = ['--reply-src', from, '--reply-port-src', answers.slice(colon + 1)];
  return ['-D', '-f', family, ...kindOf[protocol], ...question, ...answer];
}

function argumentsFor({ family, protocol, client, clientPort, address, port }: Tracked): readonly string[] {
  const question = ['--orig-src', client, '--orig-dst', address];
  const ports = ['--orig-port-src', String(clientPort), '--orig-port-dst', String(port)];
  return ['-D', '-f', family, ...kindOf[protocol], ...question, ...ports];
}
