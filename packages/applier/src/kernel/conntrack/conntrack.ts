import { LineSplitter } from '../../message.ts';
import type { KernelError } from '../../ports/failure.ts';
import { failed } from '../failure.ts';
import { canonicalAddress, compareText, type Family, printEndpoint } from '@sluice/netfilter';
import { limits } from '../../limits.ts';
import type { TrackedFlow, TrackedPath } from '../../ports/kernel.ts';
import type { Command, ToolResult, Run } from '../command.ts';

/**
 * Forgets the connections of some flows, of TCP only those without an answer yet. One process per family and protocol lists them, and one
 * more forgets those from one address and port to one endpoint, or all of an endpoint when none is to stay. A single flow, as after a change
 * of one endpoint, is forgotten without a list. Other connections are never touched: a TCP connection that was answered in between has
 * another state.
 *
 * Each process walks over the kernel's table, 2 to 4 s with a million entries, so the number of processes matters, not that of connections.
 * `conntrack -R` would save none: it walks for each line, and opens /dev/stdin by its path, which fails where that is a socket, as for a
 * child of Node.
 *
 * @param conntrack the tool
 * @param local the machine's own addresses: only these have node ports
 * @param found called with the number of connections, before the first is forgotten; not where they are not listed
 * @returns that number
 * @throws KernelError when the tool fails; some may be forgotten then
 */
export async function forgetFlows(
  flows: readonly TrackedFlow[],
  conntrack: string,
  local: Readonly<Record<Family, readonly string[]>>,
  run: Run,
  found: (connections: number) => void = () => undefined,
): Promise<number> {
  let forgotten = 0;
  const all: FoundConnections[] = [];
  for (const family of ['ipv4', 'ipv6'] as const) {
    for (const protocol of ['udp', 'tcp'] as const) {
      const wanted = flows.filter((flow) => flow.family === family && flow.protocol === protocol);
      if (wanted.length === 0) continue;
      const path = onlyPath(wanted);
      if (path) {
        forgotten += await remove(conntrack, argumentsFor(path, false), run);
        continue;
      }
      const finder = new ConnectionFinder(family, wanted, new Set(local[family]));
      const lines = new LineSplitter((line) => finder.read(line));
      const args = ['-L', '-f', family, ...kindOf[protocol]];
      await must({ file: conntrack, args, onOutput: (part) => lines.take(part) }, run);
      lines.end();
      all.push(finder);
    }
  }
  const connections = all.reduce((sum, one) => sum + one.connections, 0);
  if (all.length > 0) found(connections);
  for (const args of all.flatMap((one) => one.commands())) await remove(conntrack, args, run);
  return forgotten + connections;
}

/** @returns the number of connections */
async function remove(conntrack: string, args: readonly string[], run: Run): Promise<number> {
  // It prints each of them.
  const ran = await run({ file: conntrack, args, isSilent: true, isSmall: true, isRepeatable: true });
  const count = Number(/(\d+) flow entries /.exec(ran.stderr)?.[1] ?? Number.NaN);
  // Exit code 1 also when there are none, or all have timed out meanwhile.
  if (ran.exitCode !== 0 && count !== 0) throw failedAt(conntrack, args, ran);
  return count || 0;
}

/** The path of the only flow, unless that is one of a node port, which may be at any local address. */
function onlyPath(flows: readonly TrackedFlow[]): PathNames | undefined {
  const [flow, ...others] = flows;
  if (!flow || others.length > 0 || flow.address === undefined || flow.protocol === 'sctp') return undefined;
  const { family, protocol, address, port, endpoint } = flow;
  return { family, protocol, address, port, answers: endpoint ?? printEndpoint(address, port) };
}

/**
 * Lists the UDP connections that were translated, and those that were not although they are at a frontend. Keeps their paths only: there may
 * be a million connections.
 * @param conntrack the tool
 * @param among each family is a walk over the kernel's whole table
 * @param frontends `10.96.0.10:53`
 * @throws KernelError when it fails
 */
export async function readTrackedPaths(
  conntrack: string,
  run: Run,
  among: readonly Family[] = ['ipv4', 'ipv6'],
  frontends: ReadonlySet<string> = new Set(),
): Promise<readonly TrackedPath[]> {
  const ports = new Set([...frontends].map((one) => one.slice(one.lastIndexOf(':') + 1)));
  const paths = new Map<string, TrackedPath>();
  for (const family of among) {
    const lines = new LineSplitter((line) => {
      const [, , , asked, , port, from, fromPort] = connectionForm.exec(line) ?? [];
      // Most connections are on few paths, and many were never translated.
      const text = `${asked} ${port} ${from} ${fromPort}`;
      const isBare = asked === from && port === fromPort;
      if ((isBare && !ports.has(port ?? '')) || paths.has(text) || paths.size >= limits.trackedPathsMax) return;
      const tracked = readTrackedConnection(line, family);
      if (tracked && (!isBare || frontends.has(tracked.answers)))
        paths.set(text, { family, address: tracked.address, port: tracked.port, endpoint: tracked.answers });
    });
    await must(
      { file: conntrack, args: ['-L', '-f', family, ...kindOf.udp], onOutput: (part) => lines.take(part) },
      run,
    );
    lines.end();
  }
  return [...paths.values()];
}

/** UDP connections have no end; those of TCP end by themselves, unless the first packet was never answered. */
const kindOf = { udp: ['-p', 'udp'], tcp: ['-p', 'tcp', '--state', 'SYN_SENT'] } as const;

async function must(command: Command, run: Run): Promise<void> {
  const ran: ToolResult = await run(command);
  if (ran.exitCode !== 0) throw failedAt(command.file, command.args, ran);
}

const failedAt = (file: string, args: readonly string[], ran: ToolResult): KernelError =>
  failed(`${file} ${args.join(' ')}`, ran);

/** A connection: the address that its client asked for, and the endpoint that answers. */
interface TrackedConnection {
  readonly family: Family;
  readonly protocol: keyof typeof kindOf;
  readonly client: string;
  readonly clientPort: number;
  readonly address: string;
  readonly port: number;
  /** `10.244.1.5:8080`; `address` and `port` again when no rule translated it. */
  readonly answers: string;
}

/** The protocol; client, address asked for and their ports of the original direction; who answers, and from which port, of the reply. */
const connectionForm = /^(udp|tcp) .*? src=(\S+) dst=(\S+) sport=(\d+) dport=(\d+).*? src=(\S+) dst=\S+ sport=(\d+) /;

/** Reads a line of `conntrack -L`: the first addresses and ports are those of the original direction, the others of the reply. */
export function readTrackedConnection(line: string, family: Family): TrackedConnection | undefined {
  const [, protocol, src = '', dst = '', clientPort, port, from = '', fromPort] = connectionForm.exec(line) ?? [];
  if (protocol !== 'udp' && protocol !== 'tcp') return undefined;
  const [client, address, answerer] = [src, dst, from].map((one) => canonicalAddress(one) ?? one);
  if (client === undefined || address === undefined || answerer === undefined) return undefined;
  return {
    family,
    protocol,
    client,
    clientPort: Number(clientPort),
    address,
    port: Number(port),
    answers: printEndpoint(answerer, Number(fromPort)),
  };
}

/** Connections of one family and protocol. */
interface FoundConnections {
  readonly connections: number;
  commands(): readonly (readonly string[])[];
}

/** From one address and port to one endpoint. */
type PathNames = Pick<TrackedConnection, 'family' | 'protocol' | 'address' | 'port' | 'answers'>;

/** The connections of a path. */
interface ConnectionPath extends PathNames {
  connections: number;
}

/** Finds the connections of flows; keeps paths only, not connections, of which there may be a million. */
class ConnectionFinder implements FoundConnections {
  readonly #family: Family;
  readonly #local: ReadonlySet<string>;
  readonly #wanted: ReadonlySet<string>;
  /** The addresses that reply on these flows; undefined: any, for node ports that no rule translated. */
  readonly #answerers: ReadonlySet<string> | undefined;
  readonly #paths = new Map<string, ConnectionPath>();
  /** Endpoints that also reply on connections that stay. */
  readonly #kept = new Set<string>();

  constructor(family: Family, flows: readonly TrackedFlow[], local: ReadonlySet<string>) {
    this.#family = family;
    this.#local = local;
    this.#wanted = new Set(flows.map(({ address, port, endpoint }) => keyOf(address, port, endpoint ?? 'nobody')));
    const answerers = flows.map(({ address, endpoint }) => (endpoint === undefined ? address : addressOf(endpoint)));
    const known = answerers.filter((one) => one !== undefined);
    this.#answerers = known.length < answerers.length ? undefined : new Set(known);
  }

  get connections(): number {
    return [...this.#paths.values()].reduce((sum, one) => sum + one.connections, 0);
  }

  read(line: string): void {
    // Most lines of a large table are irrelevant, and parsing a whole line is slow.
    if (this.#answerers && !this.#answerers.has(lastSource(line))) return;
    const tracked = readTrackedConnection(line, this.#family);
    if (!tracked) return;
    if (!this.#isWanted(tracked)) {
      this.#kept.add(tracked.answers);
      return;
    }
    const key = keyOf(tracked.address, tracked.port, tracked.answers);
    const path = this.#paths.get(key);
    if (path) path.connections++;
    else this.#paths.set(key, { ...tracked, connections: 1 });
  }

  #isWanted({ address, port, answers }: TrackedConnection): boolean {
    const has = (endpoint: string): boolean =>
      this.#wanted.has(keyOf(address, port, endpoint)) ||
      (this.#local.has(address) && this.#wanted.has(keyOf(undefined, port, endpoint)));
    return has(answers) || (answers === printEndpoint(address, port) && has('nobody'));
  }

  /** The paths with the most connections first: when time is short, most clients are helped. */
  commands(): readonly (readonly string[])[] {
    const byEndpoint = Map.groupBy(this.#paths.values(), ({ answers }) => answers);
    const groups = [...byEndpoint].flatMap(([answers, paths]) =>
      paths.length > 1 && !this.#kept.has(answers)
        ? [{ paths, isWhole: true }]
        : paths.map((path) => ({ paths: [path], isWhole: false })),
    );
    const sizeOf = (paths: readonly ConnectionPath[]): number =>
      paths.reduce((sum, { connections }) => sum + connections, 0);
    return groups
      .toSorted((a, b) => sizeOf(b.paths) - sizeOf(a.paths) || compareText(pathText(a.paths[0]), pathText(b.paths[0])))
      .flatMap(({ paths: [path], isWhole }) => (path ? [argumentsFor(path, isWhole)] : []));
  }
}

const keyOf = (address: string | undefined, port: number, endpoint: string): string =>
  `${address ?? '*'} ${port} ${endpoint}`;
const pathText = (path: ConnectionPath | undefined): string =>
  path ? keyOf(path.address, path.port, path.answers) : '';

/** `[fd00::5]:8080` and `10.244.1.5:8080` without the port. */
const addressOf = (endpoint: string): string => endpoint.slice(0, endpoint.lastIndexOf(':')).replaceAll(/^\[|\]$/g, '');

/** The replying address in a line of `conntrack -L`. */
function lastSource(line: string): string {
  const from = line.lastIndexOf(' src=') + 5;
  const text = line.slice(from, line.indexOf(' ', from));
  return text.includes(':') ? (canonicalAddress(text) ?? text) : text;
}

/** @param isWhole all connections on which the endpoint replies, whatever address they asked for */
function argumentsFor({ family, protocol, address, port, answers }: PathNames, isWhole: boolean): readonly string[] {
  const question = isWhole ? [] : ['--orig-dst', address, '--orig-port-dst', String(port)];
  const answer = ['--reply-src', addressOf(answers), '--reply-port-src', answers.slice(answers.lastIndexOf(':') + 1)];
  return ['-D', '-f', family, ...kindOf[protocol], ...question, ...answer];
}
