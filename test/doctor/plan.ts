import { randomOf } from '@sluice/testing';

/** What a seed draws for one row: the data plane, the Service with its addresses and ports, and the kinds of oddities. */
export interface Drawn {
  readonly plane: Plane;
  readonly family: 'ipv4' | 'ipv6';
  readonly namespace: string;
  readonly name: string;
  readonly port: number;
  readonly targetPort: number;
  readonly nodePort: number;
  readonly clusterIP: string;
  readonly externalIP: string;
  /** Numbers in [0, 1) for what a row draws by itself. */
  readonly random: () => number;
}

export interface Plane {
  readonly mode: 'iptables' | 'nftables';
  readonly backend: 'nft' | 'legacy';
  readonly layout: 'tree' | 'flat';
}

const planes: readonly Plane[] = [
  { mode: 'iptables', backend: 'nft', layout: 'tree' },
  { mode: 'nftables', backend: 'nft', layout: 'tree' },
  { mode: 'iptables', backend: 'legacy', layout: 'tree' },
  { mode: 'iptables', backend: 'nft', layout: 'flat' },
];

const namespaces = ['shop', 'billing', 'kube-system', 'team-7', 'media'] as const;
const names = ['web', 'cart', 'orders', 'search', 'login', 'cache-0', 'dns'] as const;

export const pick = <T>(list: readonly T[], random: () => number): T => list[Math.floor(random() * list.length)] as T;
export const between = (from: number, to: number, random: () => number): number =>
  from + Math.floor(random() * (to - from + 1));

/**
 * @param row the row's title: rows of one seed draw apart
 * @param only the planes that the row is about
 */
export function draw(seed: number, row: string, only: (plane: Plane) => boolean = () => true): Drawn {
  let mixed = seed >>> 0;
  for (const character of row) mixed = (Math.imul(mixed, 31) + character.charCodeAt(0)) >>> 0;
  const random = randomOf(mixed);
  const plane = pick(planes.filter(only), random);
  const family = random() < 0.5 ? 'ipv4' : 'ipv6';
  const host = between(2, 250, random);
  return {
    plane,
    family,
    namespace: pick(namespaces, random),
    name: pick(names, random),
    port: between(1, 9000, random),
    targetPort: between(1024, 29_000, random),
    nodePort: between(30_000, 32_767, random),
    clusterIP: family === 'ipv4' ? `10.96.${between(1, 200, random)}.${host}` : `fd00:96::${host.toString(16)}`,
    externalIP: family === 'ipv4' ? `203.0.113.${host}` : `2001:db8:113::${host.toString(16)}`,
    random,
  };
}
