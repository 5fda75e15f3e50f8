import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { execa } from 'execa';
import { quietSysctls } from '../netns/cluster.ts';
import { Host } from '../netns/cluster-host.ts';
import { guestStore, isInGuest } from '../in-guest.ts';
import { nodeAddresses } from './clusters.ts';

/**
 * A node with two wires, `pod0` to its pods and `eth0` to everything else, and `wire/` at their far ends: a Go program that sends one
 * packet at a time, answers forwarded packets, and reports the outcome of each. No neighbour or route needs to be learnt.
 */

/** One packet. Two with the same addresses and ports belong to one connection. */
export interface Probe {
  /** The wire on which it arrives; empty: the node sends it. */
  readonly via: '' | 'pod0' | 'eth0';
  /** `tcp-rst`: a RST without a connection, which conntrack calls invalid. */
  readonly protocol: 'tcp' | 'udp' | 'sctp' | 'tcp-rst';
  readonly source: string;
  readonly sport: number;
  readonly target: string;
  readonly port: number;
}

export interface ProbeOutcome {
  readonly kind: 'forward' | 'local' | 'reject' | 'drop';
  readonly via?: string;
  readonly source?: string;
  readonly target?: string;
  readonly port?: number;
  /** Whether the answer had the address of the request as its source. */
  readonly back?: boolean;
}

/** The rules of a node of both families, as the save tools print them. */
export interface Saved {
  readonly IPv4: string;
  readonly IPv6: string;
}

/** An emulated machine is slow. */
const usualQuietMs = isInGuest ? 5_000 : 400;

/** The far end uses it (`wire/sockets.go`). */
const nodeMAC = '02:00:00:00:00:01';
/**
 * Addresses of the node besides its first, for as many clients. In the guest fewer: mode ipvs has a virtual server for each node port and
 * address, and takes endpoints in turn, so that fewer clients meet all of them.
 */
export const moreAddresses = isInGuest ? 15 : 95;

const sysctls: Readonly<Record<string, string>> = {
  ...quietSysctls,
  'net/ipv4/icmp_ratemask': '0',
  // For all types of errors; otherwise a limit of the whole machine applies.
  'net/ipv6/icmp/ratemask': '\n',
};

const wiring = (far: number): string =>
  [
    'link set lo up',
    ...['pod0', 'eth0'].flatMap((name) => [
      `link add ${name} address ${nodeMAC} type veth peer name ${name} netns ${far}`,
      `link set ${name} arp off up`,
    ]),
    `addr add ${nodeAddresses[0]}/24 dev eth0`,
    `addr add ${nodeAddresses[1]}/64 dev eth0 nodad`,
    ...Array.from({ length: moreAddresses }, (_, n) => [
      `addr add 192.0.2.${101 + n}/24 dev eth0`,
      `addr add fd00::1:${n + 1}/64 dev eth0 nodad`,
    ]).flat(),
    'route add 10.244.1.0/24 dev pod0',
    'route add default dev eth0',
    'route add fd00:10:244:1::/64 dev pod0',
    'route add ::/0 dev eth0',
  ].join('\n');

/** Holds the network namespace of the far ends until its first line of input, then becomes the program there. */
const far = `
  echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6
  echo ready
  read -r line
  ip link set pod0 up
  ip link set eth0 up
  exec "$0" "$@"
`;

const forget = `
  for list in /proc/net/xt_recent/*; do [ ! -e "$list" ] || echo / >"$list"; done
  nft list sets 2>/dev/null | awk '/^table/ { table = $2 " " $3 } /set affinity-/ { print "flush set", table, $2 }' | nft -f -
  ! nft list table inet sluice >/dev/null 2>&1 || nft 'flush map inet sluice aff4; flush map inet sluice aff6'
`;

type WireProcess = ChildProcessByStdio<Writable, Readable, null>;

export class WiredNode {
  readonly host: Host;
  readonly #wire: WireProcess;
  readonly #answers: AsyncIterator<string>;

  private constructor(host: Host, wire: WireProcess, answers: AsyncIterator<string>) {
    this.host = host;
    this.#wire = wire;
    this.#answers = answers;
  }

  /** @param program `wire/`, built @param commands of the shell, run on the node before all others */
  static async start(name: string, program: string, commands: readonly string[] = []): Promise<WiredNode> {
    const host = await Host.start(name);
    await host.sysctl(sysctls);
    const inside = [program, `/proc/${host.pid}/ns/net`, 'pod0', 'eth0'];
    const wire = spawn('unshare', ['--net', '--mount-proc', '/bin/sh', '-ec', far, ...inside], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    // Its end is seen by its answers.
    wire.stdin.on('error', () => undefined);
    const answers = createInterface({ input: wire.stdout })[Symbol.asyncIterator]();
    await lineOf(answers);
    // From outside of the node's process namespace, where the other's process number is unknown.
    const ip = [`--target=${host.pid}`, '--net', '--', 'ip', '-batch', '-'];
    await execa('nsenter', ip, { input: wiring(wire.pid as number) });
    wire.stdin.write('\n');
    await host.run(['/bin/sh', '-ec', commands.join('\n')]);
    return new WiredNode(host, wire, answers);
  }

  /**
   * Sends packets one after another. @param quietMs the silence after which packets without an outcome count as dropped
   * @returns the outcome of each, in their order
   */
  async send(probes: readonly Probe[], quietMs = usualQuietMs): Promise<readonly ProbeOutcome[]> {
    this.#wire.stdin.write(`${JSON.stringify({ quietMs, probes })}\n`);
    return JSON.parse(await lineOf(this.#answers)) as readonly ProbeOutcome[];
  }

  async saved(): Promise<Saved> {
    const tools = [`/usr/sbin/iptables-${guestStore}-save`, `/usr/sbin/ip6tables-${guestStore}-save`];
    const [IPv4 = '', IPv6 = ''] = await Promise.all(tools.map((tool) => this.host.run([tool])));
    return { IPv4, IPv6 };
  }

  /** Empties the affinity lists of Services: those of iptables, and the sets of mode nftables, kube-proxy's and Sluice's. */
  async forgetClients(): Promise<void> {
    await this.host.run(['/bin/sh', '-c', forget]);
  }

  /** Empties the conntrack table. */
  async forgetConnections(): Promise<void> {
    await this.host.run(['/bin/sh', '-ec', 'conntrack -F -f ipv4; conntrack -F -f ipv6']);
  }

  async close(): Promise<void> {
    this.#wire.stdin.end();
    await this.host.close();
  }
}

async function lineOf(answers: AsyncIterator<string>): Promise<string> {
  const { value, done } = await answers.next();
  if (done) throw new Error('The program at the far end of the wires has ended');
  return value;
}
