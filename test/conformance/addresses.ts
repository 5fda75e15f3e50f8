/** The addresses of the cluster: of namespaces that the test makes, reached from nowhere else. */

/** A node by its number, from 1. */
export interface NodePlace {
  readonly name: string;
  readonly zone: string;
  readonly addresses: readonly [v4: string, v6: string];
  readonly podCIDRs: readonly [v4: string, v6: string];
}

/** A zone each: three tests of traffic distribution need three zones. Three others need two nodes in each. */
export const places: readonly NodePlace[] = ['zone-a', 'zone-b', 'zone-c'].map((zone, index) => ({
  name: `node-${index + 1}`,
  zone,
  addresses: [`10.11.0.${index + 11}`, `fd00:11::${index + 11}`],
  podCIDRs: [`10.244.${index + 1}.0/24`, `fd00:244:${index + 1}::/64`],
}));

/** The machine with the API server, the tests, and the wires of all nodes. */
export const controlAddresses = ['10.11.0.1', 'fd00:11::1'] as const;
export const serviceCIDRs = ['10.96.0.0/16', 'fd00:96::/112'] as const;
export const podCIDRs = ['10.244.0.0/16', 'fd00:244::/32'] as const;
export const dnsAddress = '10.96.0.10';

/** A line of `ip -batch` for the wire of a node to the control. @param pids the processes that hold the namespaces */
export const wires = ({ name }: NodePlace, controlPid: number, pid: number): string =>
  `link add ${name} netns ${controlPid} type veth peer name eth0 netns ${pid}\n`;

export function controlLines(): string {
  return lines([
    'link set lo up',
    'link add br0 type bridge',
    `address add ${controlAddresses[0]}/24 dev br0`,
    `address add ${controlAddresses[1]}/64 dev br0 nodad`,
    'link set br0 up',
  ]);
}

/** The control's end of the wire of a node. */
export const joinLines = (place: NodePlace): string =>
  lines([`link set ${place.name} master br0`, `link set ${place.name} up`, ...routes(place)]);

export function nodeLines(place: NodePlace): string {
  return lines([
    'link set lo up',
    `address add ${place.addresses[0]}/24 dev eth0`,
    `address add ${place.addresses[1]}/64 dev eth0 nodad`,
    'link set eth0 up',
    `route add default via ${controlAddresses[0]}`,
    `route add ::/0 via ${controlAddresses[1]}`,
    ...places.filter((other) => other !== place).flatMap(routes),
  ]);
}

const routes = ({ addresses, podCIDRs: [v4, v6] }: NodePlace): readonly string[] => [
  `route replace ${v4} via ${addresses[0]}`,
  `route replace ${v6} via ${addresses[1]}`,
];

const lines = (all: readonly string[]): string => `${all.join('\n')}\n`;
