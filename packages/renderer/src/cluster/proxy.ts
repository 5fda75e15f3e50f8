import { Agent } from 'node:https';

/** `HTTPS_PROXY` unless `NO_PROXY` names the host or a domain above it. */
export function proxyFor(host: string, env: NodeJS.ProcessEnv): string | undefined {
  const proxy = env['HTTPS_PROXY'] || env['https_proxy'];
  if (!proxy) return undefined;
  const except = (env['NO_PROXY'] || env['no_proxy'] || '').split(',').map((entry) => entry.trim().replace(/^\./, ''));
  const isExcepted = except.some(
    (entry) => entry !== '' && (entry === '*' || host === entry || host.endsWith(`.${entry}`)),
  );
  return isExcepted ? undefined : proxy;
}

/**
 * Connections that are kept between requests, through a proxy or not.
 * @returns undefined for a SOCKS proxy, which the client library serves
 */
export function agentFor(proxy: string | undefined): Agent | undefined {
  if (proxy === undefined) return new Agent({ keepAlive: true });
  return proxy.startsWith('socks') ? undefined : new Agent({ keepAlive: true, proxyEnv: { HTTPS_PROXY: proxy } });
}
