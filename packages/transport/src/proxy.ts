import { Agent } from 'node:https';
import { BlockList, isIP } from 'node:net';

// The client library reads no proxy from the environment, its agents close each connection (a Lease is renewed every two seconds), and they
// keep a certificate that was renewed. NO_PROXY of Node has no networks: client-node.test.ts, "proxy.ts".

/**
 * `HTTPS_PROXY`, unless the host is this machine or matches `NO_PROXY`, such as `.example.com,10.96.0.0/12,api.example.com:6443`.
 * Implements https://pkg.go.dev/golang.org/x/net/http/httpproxy#Config, like kubectl.
 */
export function proxyFor(hostname: string, env: NodeJS.ProcessEnv, port = ''): string | undefined {
  const proxy = env['HTTPS_PROXY'] || env['https_proxy'];
  const host = hostname.toLowerCase().replace(/^\[(.*)\]$/, '$1');
  if (!proxy || isHere(host)) return undefined;
  const except = (env['NO_PROXY'] || env['no_proxy'] || '').toLowerCase().split(',');
  return except.some((entry) => isMeant(entry.trim(), host, port || '443')) ? undefined : proxy;
}

function isHere(host: string): boolean {
  return host === 'localhost' || contains('127.0.0.0', 8, host) || contains('::1', 128, host);
}

function isMeant(entry: string, host: string, port: string): boolean {
  if (entry === '*') return true;
  const [network = '', bits] = entry.split('/');
  if (bits !== undefined) return contains(network, Number(bits), host);
  const [, bracketed, name, onlyPort] = /^(?:\[(.*)\]|([^:]*))(?::(\d+))?$/.exec(entry) ?? [undefined, entry];
  if (onlyPort !== undefined && onlyPort !== port) return false;
  const meant = bracketed ?? name ?? '';
  if (isIP(meant) !== 0) return contains(meant, isIP(meant) === 6 ? 128 : 32, host);
  const domain = meant.replace(/^\*\./, '.');
  if (domain.startsWith('.')) return host.endsWith(domain);
  return domain !== '' && (host === domain || host.endsWith(`.${domain}`));
}

function contains(network: string, bits: number, host: string): boolean {
  if (isIP(host) === 0 || isIP(network) === 0) return false;
  const list = new BlockList();
  const family = (address: string): 'ipv4' | 'ipv6' => (isIP(address) === 6 ? 'ipv6' : 'ipv4');
  if (!(bits >= 0 && bits <= (isIP(network) === 6 ? 128 : 32))) return false;
  list.addSubnet(network, bits, family(network));
  return list.check(host, family(host));
}

/**
 * An agent that keeps connections alive, with or without a proxy.
 * @returns undefined for a SOCKS proxy, which the client library supports
 */
export function agentFor(proxy: string | undefined): Agent | undefined {
  if (proxy === undefined) return new Agent({ keepAlive: true });
  return proxy.startsWith('socks') ? undefined : new Agent({ keepAlive: true, proxyEnv: { HTTPS_PROXY: proxy } });
}
