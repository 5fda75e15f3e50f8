// What it costs to read connections with `countConnections` and `countTraffic`. Run by itself, as root:
// `node test/bench/traffic.ts [SERVICES] [CONNECTIONS] [WAY,…]`.
// The connections are entries of the kernel's own table. Each network namespace may have as many as the machine's limit says, mostly 262,144, and
// may not change it: a million are in four, which are read one after the other.
import { execFileSync } from 'node:child_process';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { ratio, report } from './measure.ts';

/** The output of traffic-inside.ts. */
interface TrafficCosts {
  readonly connections: number;
  /** Seconds of a processor for one reading, with its tools. */
  readonly newConnections: number;
  readonly traffic: number;
  /** Of `conntrack -L` alone. */
  readonly tool: number;
  /** Megabytes of the daemon: without and with both. */
  readonly resident: readonly [number, number];
  readonly live: number;
}

/** On a node of each way. Needs root. @param ways the store of mode iptables, or `nftables` */
export function trafficBench(
  services: number,
  connections: number,
  ways: readonly string[] = ['nft', 'nftables'],
): void {
  for (const way of ways) ofWay(services, connections, way);
}

function ofWay(services: number, connections: number, way: string): void {
  const script = join(import.meta.dirname, 'traffic-inside.ts');
  const command = ['-n', '-m', 'sh', '-c', 'mount -t tmpfs tmpfs /run && exec "$@"', 'sh'];
  const args = [...command, process.execPath, script, String(services), String(connections), way];
  const load = loadavg()[0]?.toFixed(1) ?? '';
  const costs = JSON.parse(execFileSync('/usr/bin/unshare', args, { encoding: 'utf8' })) as TrafficCosts;
  const title = `${services} Services, ${way === 'nftables' ? 'mode nftables' : 'mode iptables'}`;
  const [without, both] = costs.resident;
  report(
    `live connections, ${title}, ${costs.connections} tracked`,
    `${costs.traffic.toFixed(2)} s`,
    'each reading, in 0.4 % of a processor',
    `every ${Math.max(10, Math.round(costs.traffic * 250))} s; ${costs.live} found; conntrack -L alone ${costs.tool.toFixed(2)} s, ratio ${ratio(costs.traffic, costs.tool)}; load ${load} before`,
  );
  report(
    `new connections, ${title}`,
    `${costs.newConnections.toFixed(2)} s`,
    'each reading, in 0.4 % of a processor',
    `every ${Math.max(10, Math.round(costs.newConnections * 250))} s`,
  );
  report(
    `memory of sluiced with both, ${title}`,
    `${both.toFixed(0)} MB`,
    'at most 180 MB',
    `${without.toFixed(0)} MB without`,
  );
}

if (import.meta.main)
  trafficBench(Number(process.argv[2] ?? 10_000), Number(process.argv[3] ?? 250_000), process.argv[4]?.split(','));
