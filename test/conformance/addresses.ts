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

/** Lines of `ip -batch` for the control's bridge and the wires to it. @param pidOf the process that holds a machine's namespaces */
export function wires(pidOf: (name: string) => number): string {
  const lines = places.map(
    ({ name }) => `link add ${name} netns ${pidOf('control')} type veth peer name eth0 netns ${pidOf(name)}`,
  );
  return `${lines.join('\n')}\n`;
}

export function controlLines(): string {
  return lines([
    'link set lo up',
    'link add br0 type bridge',
    `address add ${controlAddresses[0]}/24 dev br0`,
    `address add ${controlAddresses[1]}/64 dev br0 nodad`,
    'link set br0 up',
    ...places.flatMap(({ name }) => [`link set ${name} master br0`, `link set ${name} up`]),
    ...places.flatMap(routes),
  ]);
}

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
  `route add ${v4} via ${addresses[0]}`,
  `route add ${v6} via ${addresses[1]}`,
];

const lines = (all: readonly string[]): string => `${all.join('\n')}\n`;
