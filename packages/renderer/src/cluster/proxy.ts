import { Agent } from 'node:https';
import { BlockList, isIP } from 'node:net';

/**
 * `HTTPS_PROXY` unless `NO_PROXY` names the host, a domain above it, or a network that it is in, as in `.example.com,10.96.0.0/12`.
 * https://pkg.go.dev/golang.org/x/net/http/httpproxy#Config, which kubectl reads both with
 */
export function proxyFor(host: string, env: NodeJS.ProcessEnv): string | undefined {
  const proxy = env['HTTPS_PROXY'] || env['https_proxy'];
  if (!proxy) return undefined;
  const except = (env['NO_PROXY'] || env['no_proxy'] || '').split(',').map((entry) => entry.trim());
  return except.some((entry) => isMeant(entry, host.replace(/^\[(.*)\]$/, '$1'))) ? undefined : proxy;
}

function isMeant(entry: string, host: string): boolean {
  if (entry === '*') return true;
  const [network = '', bits] = entry.split('/');
  if (bits !== undefined) return isIP(host) !== 0 && isIP(network) !== 0 && contains(network, Number(bits), host);
  const domain = entry.replace(/^\*?\./, '').toLowerCase();
  return domain !== '' && (host === domain || host.endsWith(`.${domain}`));
}

function contains(network: string, bits: number, host: string): boolean {
  const list = new BlockList();
  const family = (address: string): 'ipv4' | 'ipv6' => (isIP(address) === 6 ? 'ipv6' : 'ipv4');
  if (!(bits >= 0 && bits <= (isIP(network) === 6 ? 128 : 32))) return false;
  list.addSubnet(network, bits, family(network));
  return list.check(host, family(host));
}

/**
 * Connections that are kept between requests, through a proxy or not.
 * @returns undefined for a SOCKS proxy, which the client library serves
 */
export function agentFor(proxy: string | undefined): Agent | undefined {
  if (proxy === undefined) return new Agent({ keepAlive: true });
  return proxy.startsWith('socks') ? undefined : new Agent({ keepAlive: true, proxyEnv: { HTTPS_PROXY: proxy } });
}
