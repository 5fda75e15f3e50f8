import { type Address, type Cidr, type Family, isInCidr, networkOf, parseCidr } from '@sluice/netfilter';

interface Route {
  readonly network: Cidr;
  readonly dev: string;
}

const kinds: ReadonlySet<string> = new Set([
  'unicast',
  'local',
  'broadcast',
  'anycast',
  'multicast',
  'blackhole',
  'unreachable',
  'prohibit',
  'throw',
  'nat',
]);

/**
 * The interface towards an address, by the longest prefix of all tables but `local`. Rules of policy routing are not followed.
 * @param lines of `ip route show table all`, of both families
 */
export function routesOf(lines: readonly string[], family: Family): (address: Address) => string | undefined {
  const routes = lines.flatMap((line): Route[] => {
    const words = line.split(' ');
    const to = kinds.has(words[0] ?? '') ? words.slice(1) : words;
    const dev = to[to.indexOf('dev') + 1] ?? '';
    if (to !== words || dev === '' || !to.includes('dev')) return [];
    const via = to[to.indexOf('via') + 1] ?? '';
    const isSix = (to[0] ?? '').includes(':') || (to.includes('via') && via.includes(':'));
    const whole = family === 'ipv4' ? '0.0.0.0/0' : '::/0';
    if (to[0] === 'default' && isSix !== (family === 'ipv6') && to.includes('via')) return [];
    const network = to[0] === 'default' ? parseCidr(whole) : networkOf(to[0] ?? '');
    return network?.family === family ? [{ network, dev }] : [];
  });
  const sorted = routes.toSorted((a, b) => b.network.prefix - a.network.prefix);
  const exact = new Map<string, string>();
  const wide: Route[] = [];
  for (const route of sorted) {
    const { network, dev } = route;
    if (network.prefix === network.words.length * 16) exact.set(network.text.slice(0, network.text.indexOf('/')), dev);
    else wide.push(route);
  }
  return (address) => exact.get(address.text) ?? wide.find(({ network }) => isInCidr(address, network))?.dev;
}
