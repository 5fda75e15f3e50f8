import { canonicalAddress, compareText, type Family, printEndpoint } from '@sluice/bundle';
import { type TrackedFlow, KernelError } from '../rollout/ports.ts';
import type { Command, Ran, Run } from './run.ts';

/**
 * Forgets the connections of some flows, of TCP only those that nobody has answered yet: one process looks per family and protocol, and
 * one more forgets those of one way to one endpoint, or all of an endpoint where none is to stay. Other connections are never touched:
 * one of TCP that was answered in between is told by its state.
 *
 * Each process takes a walk over the kernel's table, 2 to 4 s with a million entries, so it is a matter of their number and not of how
 * many connections there are. `conntrack -R` would save none: it walks for each line, and opens /dev/stdin by its path, which cannot be
 * opened where that is a socket, as it is for a child of Node.
 *
 * @param conntrack the tool
 * @param local the machine's own addresses: only these have node ports
 * @param found is told how many connections there are, before the first is forgotten
 * @returns how many there were
 * @throws KernelError when the tool fails; some may be forgotten then
 */
export async function forgetFlows(
  flows: readonly TrackedFlow[],
  conntrack: string,
  local: Readonly<Record<Family, readonly string[]>>,
  run: Run,
  found: (connections: number) => void = () => undefined,
): Promise<number> {
  const all: Found[] = [];
  for (const family of ['ipv4', 'ipv6'] as const) {
    for (const protocol of ['udp', 'tcp'] as const) {
      const wanted = flows.filter((flow) => flow.family === family && flow.protocol === protocol);
      if (wanted.length === 0) continue;
      const finder = new Finder(family, wanted, new Set(local[family]));
      const lines = new Lines((line) => finder.read(line));
      const args = ['-L', '-f', family, ...kindOf[protocol]];
      await must({ file: conntrack, args, onOutput: (part) => lines.take(part) }, run);
      lines.end();
      all.push(finder);
    }
  }
  const connections = all.reduce((sum, one) => sum + one.connections, 0);
  found(connections);
  for (const args of all.flatMap((one) => one.commands())) {
    const ran = await run({ file: conntrack, args });
    // It says 1 where all have timed out since then.
    if (ran.exitCode !== 0 && !ran.stderr.includes(' 0 flow entries ')) throw failed(conntrack, args, ran);
  }
  return connections;
}

/** UDP has no end of a connection; one of TCP ends by itself, unless its first packet was never answered. */
const kindOf = { udp: ['-p', 'udp'], tcp: ['-p', 'tcp', '--state', 'SYN_SENT'] } as const;

async function must(command: Command, run: Run): Promise<void> {
  const ran: Ran = await run(command);
  if (ran.exitCode !== 0) throw failed(command.file, command.args, ran);
}

const failed = (file: string, args: readonly string[], { why }: Ran): KernelError =>
  new KernelError(`${file} ${args.join(' ')}`, why);

/** Cuts what a tool prints into lines, however it comes. */
class Lines {
  readonly #read: (line: string) => void;
  #rest = '';

  constructor(read: (line: string) => void) {
    this.#read = read;
  }

  take(part: string): void {
    const lines = `${this.#rest}${part}`.split('\n');
    this.#rest = lines.pop() ?? '';
    for (const line of lines) this.#read(line);
  }

  end(): void {
    if (this.#rest !== '') this.#read(this.#rest);
  }
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

/** Reads a line of `conntrack -L`: the first four addresses and ports are those of the question, the others of the answer. */
export function readTracked(line: string, family: Family): Tracked | undefined {
  const protocol = line.startsWith('udp ') ? 'udp' : line.startsWith('tcp ') ? 'tcp' : undefined;
  if (protocol === undefined) return undefined;
  const values = (name: string): readonly string[] =>
    [...line.matchAll(new RegExp(` ${name}=(\\S+)`, 'g'))].map(([, value = '']) => value);
  const [client, from] = values('src').map((one) => canonicalAddress(one) ?? one);
  const [address] = values('dst').map((one) => canonicalAddress(one) ?? one);
  const [clientPort, fromPort] = values('sport').map(Number);
  const [port] = values('dport').map(Number);
  if (client === undefined || from === undefined || address === undefined) return undefined;
  if (clientPort === undefined || fromPort === undefined || port === undefined) return undefined;
  return { family, protocol, client, clientPort, address, port, answers: printEndpoint(from, fromPort) };
}

/** Connections of one family and protocol. */
interface Found {
  readonly connections: number;
  commands(): readonly (readonly string[])[];
}

/** The connections of one way to one endpoint. */
interface Way extends Pick<Tracked, 'family' | 'protocol' | 'address' | 'port' | 'answers'> {
  connections: number;
}

/** Finds the connections that belong to flows; it holds ways and no connections, for there may be a million of these. */
class Finder implements Found {
  readonly #family: Family;
  readonly #local: ReadonlySet<string>;
  readonly #wanted: ReadonlySet<string>;
  /** The addresses that answer on these flows; undefined: any, for node ports that no rule translated. */
  readonly #answerers: ReadonlySet<string> | undefined;
  readonly #ways = new Map<string, Way>();
  /** Who also answers on connections that stay. */
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
    return [...this.#ways.values()].reduce((sum, one) => sum + one.connections, 0);
  }

  read(line: string): void {
    // Most lines of a large table are of no interest, and reading one whole is dear.
    if (this.#answerers && !this.#answerers.has(lastSource(line))) return;
    const tracked = readTracked(line, this.#family);
    if (!tracked) return;
    if (!this.#isWanted(tracked)) {
      this.#kept.add(tracked.answers);
      return;
    }
    const key = keyOf(tracked.address, tracked.port, tracked.answers);
    const way = this.#ways.get(key);
    if (way) way.connections++;
    else this.#ways.set(key, { ...tracked, connections: 1 });
  }

  #isWanted({ address, port, answers }: Tracked): boolean {
    const has = (endpoint: string): boolean =>
      this.#wanted.has(keyOf(address, port, endpoint)) ||
      (this.#local.has(address) && this.#wanted.has(keyOf(undefined, port, endpoint)));
    return has(answers) || (answers === printEndpoint(address, port) && has('nobody'));
  }

  /** The ways with the most connections first: when time is short, most clients are helped. */
  commands(): readonly (readonly string[])[] {
    const byEndpoint = Map.groupBy(this.#ways.values(), ({ answers }) => answers);
    const groups = [...byEndpoint].flatMap(([answers, ways]) =>
      ways.length > 1 && !this.#kept.has(answers)
        ? [{ ways, isWhole: true }]
        : ways.map((way) => ({ ways: [way], isWhole: false })),
    );
    const sizeOf = (ways: readonly Way[]): number => ways.reduce((sum, { connections }) => sum + connections, 0);
    return groups
      .toSorted((a, b) => sizeOf(b.ways) - sizeOf(a.ways) || compareText(wayText(a.ways[0]), wayText(b.ways[0])))
      .flatMap(({ ways: [way], isWhole }) => (way ? [argumentsFor(way, isWhole)] : []));
  }
}

const keyOf = (address: string | undefined, port: number, endpoint: string): string =>
  `${address ?? '*'} ${port} ${endpoint}`;
const wayText = (way: Way | undefined): string => (way ? keyOf(way.address, way.port, way.answers) : '');

/** `[fd00::5]:8080` and `10.244.1.5:8080` without the port. */
const addressOf = (endpoint: string): string => endpoint.slice(0, endpoint.lastIndexOf(':')).replaceAll(/^\[|\]$/g, '');

/** Who answers, in a line of `conntrack -L`. */
function lastSource(line: string): string {
  const from = line.lastIndexOf(' src=') + 5;
  const text = line.slice(from, line.indexOf(' ', from));
  return text.includes(':') ? (canonicalAddress(text) ?? text) : text;
}

/** @param isWhole all connections on which the endpoint answers, whatever they asked for */
function argumentsFor({ family, protocol, address, port, answers }: Way, isWhole: boolean): readonly string[] {
  const question = isWhole ? [] : ['--orig-dst', address, '--orig-port-dst', String(port)];
  const answer = ['--reply-src', addressOf(answers), '--reply-port-src', answers.slice(answers.lastIndexOf(':') + 1)];
  return ['-D', '-f', family, ...kindOf[protocol], ...question, ...answer];
}
