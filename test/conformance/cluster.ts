import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { execa } from 'execa';
import { quietSysctls } from '../netns/cluster.ts';
import { Host } from '../netns/cluster-host.ts';
import { until } from '../netns/until.ts';
import { controlAddresses, controlLines, dnsAddress, joinLines, nodeLines, places, wires } from './addresses.ts';
import { type ControlPlane, type LoggedDaemon, startControlPlane, startLogged } from './control-plane.ts';
import { nodePackages, unpacked } from './debian.ts';
import { imageArchives, imageNames } from './images.ts';
import { type Machine, startMachine } from './machine.ts';
import { startNode } from './node.ts';
import type { Programs } from './programs.ts';
import type { System, SystemPlace } from './systems.ts';

/** A real cluster: `await using cluster = await openCluster(programs, folder)`. */
export interface RealCluster extends AsyncDisposable, SystemPlace {
  /** All programs by name and node: `etcd`, `kubelet node-1`, `sluiced node-1`. */
  readonly daemons: ReadonlyMap<string, LoggedDaemon>;
  /** Ends all that runs on a node, and starts the machine again with its disk and its address, without a program. */
  reboot(name: string): Promise<Host>;
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
    const machines = new Map<string, Machine>();
    closing.push(async () => void (await Promise.all([...machines.values()].map((machine) => machine.close()))));
    const startOne = async ({ name }: { readonly name: string }): Promise<void> =>
      void machines.set(name, await startMachine(name, join(folder, name)));
    await Promise.all(places.map(startOne));
    const nodes = new Map([...machines].map(([name, { host }]) => [name, host]));
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
    const daemons = new Map<string, LoggedDaemon>(plane.daemons);
    const started = places.map(async (place) => {
      const host = nodes.get(place.name) ?? control;
      const { containerd, kubelet } = await startNode(host, place, join(folder, place.name), parts);
      daemons.set(`containerd ${place.name}`, containerd).set(`kubelet ${place.name}`, kubelet);
    });
    await Promise.all(started);
    await untilReady(plane);
    await startDns(control, plane, programs, folder);
    const own = join(folder, 'system');
    mkdirSync(own);
    const images = {
      agnhost: `registry.k8s.io/e2e-test-images/agnhost:${names.agnhost[0]}`,
      iptables: `registry.k8s.io/build-image/distroless-iptables:${names.iptables[0]}`,
    };
    const place: SystemPlace = { control, plane, nodes, programs, folder: own, images };
    for (const [name, daemon] of await system.start(place)) daemons.set(name, daemon);
    await untilServed(place);
    const reboot = async (name: string): Promise<Host> => {
      await machines.get(name)?.close();
      await startOne({ name });
      const { host } = machines.get(name) as Machine;
      nodes.set(name, host);
      await joinNode(control, host);
      return host;
    };
    return { ...place, daemons, reboot, [Symbol.asyncDispose]: close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function wireUp(control: Host, nodes: ReadonlyMap<string, Host>): Promise<void> {
  await control.sysctl(quietSysctls);
  await control.run(['ip', '-batch', '-'], { input: controlLines() });
  for (const host of nodes.values()) await joinNode(control, host);
}

/** Wires a machine to the control's bridge. */
async function joinNode(control: Host, host: Host): Promise<void> {
  const place = places.find(({ name }) => name === host.name);
  if (place === undefined) throw new Error(`The cluster has no node ${host.name}`);
  await host.sysctl(quietSysctls);
  // From outside of the process namespaces, in which the numbers of others mean nothing.
  const enter = [`--target=${control.pid}`, '--net', '--'];
  await execa('nsenter', [...enter, 'ip', '-batch', '-'], { input: wires(place, control.pid, host.pid) });
  await control.run(['ip', '-batch', '-'], { input: joinLines(place) });
  await host.run(['ip', '-batch', '-'], { input: nodeLines(place) });
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
