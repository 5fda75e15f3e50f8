import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { execa } from 'execa';
import { quietSysctls } from '../netns/cluster.ts';
import { Host } from '../netns/cluster-host.ts';
import { until } from '../netns/until.ts';
import { controlAddresses, controlLines, dnsAddress, nodeLines, places, wires } from './addresses.ts';
import { type ControlPlane, startControlPlane, startLogged } from './control-plane.ts';
import { nodePackages, unpacked } from './debian.ts';
import { imageArchives, imageNames } from './images.ts';
import { startMachine } from './machine.ts';
import { type NodeDaemons, startNode } from './node.ts';
import type { Programs } from './programs.ts';
import type { System, SystemPlace } from './systems.ts';

/** A real cluster: `await using cluster = await openCluster(programs, folder)`. */
export interface RealCluster extends AsyncDisposable, SystemPlace {
  readonly daemons: ReadonlyMap<string, NodeDaemons>;
}

/**
 * A control plane and nodes with a kubelet each, in namespaces of one machine, with a system that serves Services.
 * Ends once every node is ready and the name server is served.
 * @param folder an empty one, for state and logs; the test removes it
 */
export async function openRealCluster(programs: Programs, system: System, folder: string): Promise<RealCluster> {
  const closing: (() => Promise<void>)[] = [];
  const close = async (): Promise<void> => {
    for (const end of closing.toReversed()) await end();
  };
  try {
    const control = await Host.start('control');
    closing.push(() => control.close());
    const machines = await Promise.all(places.map(({ name }) => startMachine(name, join(folder, name))));
    closing.push(async () => void (await Promise.all(machines.map((machine) => machine.close()))));
    const nodes = new Map(machines.map(({ host }) => [host.name, host]));
    await wireUp(control, nodes);
    const plane = await startControlPlane(control, programs, join(folder, 'control'));
    const { stdout } = await execa(programs['network.test'], ['-list-images'], { cwd: folder });
    const names = imageNames(stdout);
    const parts = {
      programs,
      debian: await unpacked(nodePackages, false),
      images: await imageArchives(programs, names),
      kubeconfig: plane.kubeconfig,
      pause: `registry.k8s.io/pause:${names.pause[0]}`,
    };
    const started = places.map(async (place) => {
      const host = nodes.get(place.name) ?? control;
      return [place.name, await startNode(host, place, join(folder, place.name), parts)] as const;
    });
    const daemons = new Map(await Promise.all(started));
    await untilReady(plane);
    await startDns(control, plane, programs, folder);
    const own = join(folder, 'system');
    mkdirSync(own);
    const place: SystemPlace = { control, plane, nodes, folder: own };
    await system.start(place);
    await untilServed(place);
    return { ...place, daemons, [Symbol.asyncDispose]: close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function wireUp(control: Host, nodes: ReadonlyMap<string, Host>): Promise<void> {
  const pidOf = (name: string): number => (nodes.get(name) ?? control).pid;
  await Promise.all([control, ...nodes.values()].map((host) => host.sysctl(quietSysctls)));
  // From outside of the process namespaces, in which the numbers of others mean nothing.
  await execa('nsenter', [`--target=${control.pid}`, '--net', '--', 'ip', '-batch', '-'], { input: wires(pidOf) });
  await control.run(['ip', '-batch', '-'], { input: controlLines() });
  for (const place of places) await nodes.get(place.name)?.run(['ip', '-batch', '-'], { input: nodeLines(place) });
}

async function untilReady({ kubectl }: ControlPlane): Promise<void> {
  const path = '{range .items[*]}{.status.conditions[?(@.type=="Ready")].status}{"\\n"}{end}';
  const isReady = async (): Promise<boolean> => {
    const states = (await kubectl(['get', 'nodes', '-o', `jsonpath=${path}`])).split('\n');
    return states.filter((state) => state === 'True').length === places.length;
  };
  await until('every node is ready', isReady, 180_000);
}

/** CoreDNS beside the API server, as a Service whose endpoint is written by hand. */
async function startDns(control: Host, plane: ControlPlane, programs: Programs, folder: string): Promise<void> {
  const [address] = controlAddresses;
  const corefile = `.:53 {\n  errors\n  kubernetes cluster.local in-addr.arpa ip6.arpa {\n    kubeconfig ${plane.kubeconfig}\n    ttl 5\n  }\n  cache 5\n}\n`;
  await control.run(['sh', '-c', 'cat > "$0"', join(folder, 'Corefile')], { input: corefile });
  startLogged(control, join(folder, 'coredns.log'), [programs.coredns, '-conf', join(folder, 'Corefile')]);
  const metadata = { name: 'kube-dns', namespace: 'kube-system', labels: { 'k8s-app': 'kube-dns' } };
  const ports = [
    { name: 'dns', protocol: 'UDP', port: 53 },
    { name: 'dns-tcp', protocol: 'TCP', port: 53 },
  ];
  const service = { apiVersion: 'v1', kind: 'Service', metadata, spec: { clusterIP: dnsAddress, ports } };
  const slice = {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name: 'kube-dns-1', namespace: 'kube-system', labels: { 'kubernetes.io/service-name': 'kube-dns' } },
    addressType: 'IPv4',
    ports,
    endpoints: [{ addresses: [address] }],
  };
  await plane.kubectl(['apply', '-f', '-'], `${JSON.stringify(service)}\n---\n${JSON.stringify(slice)}`);
}

/** Each node reaches the API server by its Service. */
async function untilServed({ nodes }: SystemPlace): Promise<void> {
  const isServed = async (): Promise<boolean> => {
    const asked = [...nodes.values()].map((host) =>
      host.exec(['curl', '-ks', '--max-time', '2', 'https://10.96.0.1/version']),
    );
    return (await Promise.all(asked)).every(({ stdout }) => stdout.includes('gitVersion'));
  };
  await until('each node reaches the API server by its Service', isServed, 120_000);
}
