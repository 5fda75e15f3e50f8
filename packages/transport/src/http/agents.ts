import { Agent as PlainAgent } from 'node:http';
import { Agent as SecureAgent } from 'node:https';
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls';
import { proxyFor } from '../proxy.ts';

interface AgentOptions {
  readonly ca?: string;
  readonly identity?: string;
  readonly proxy?: string;
}

/** The connections of a client, which are kept between requests: a release has many small parts. */
export class Agents {
  readonly #made = new Map<string, PlainAgent>();
  readonly #proxy: string | undefined;
  /** Made once: reading the authorities of a system takes longer than a connection. */
  readonly #trusted: SecureContext | undefined;

  /**
   * @param options `ca`: PEM, besides the authorities of the system; `identity`: the certificate and the key of the client, PEM; `proxy`:
   * instead of that of the environment
   * @throws Error for a proxy that is none of HTTP, and for an identity that is not usable
   */
  constructor({ ca, identity, proxy }: AgentOptions) {
    this.#proxy = proxy;
    if (ca === undefined && identity === undefined) return;
    const authorities = getCACertificates('default');
    this.#trusted = createSecureContext({
      ca: ca === undefined ? authorities : [...authorities, ca],
      ...(identity !== undefined && { cert: identity, key: identity }),
    });
  }

  /**
   * The agent for a URL.
   * @throws Error for a proxy that is none of HTTP
   */
  for({ protocol, hostname, port }: URL): { readonly agent: PlainAgent; readonly isProxied: boolean } {
    const isSecure = protocol === 'https:';
    const proxy = this.#proxy ?? (isSecure ? proxyFor(hostname, process.env, port) : undefined);
    if (proxy !== undefined && !/^https?:\/\//.test(proxy)) throw new Error('its proxy is not an http or https URL');
    const key = `${protocol} ${proxy}`;
    const agent = this.#made.get(key) ?? this.#make(isSecure, proxy);
    this.#made.set(key, agent);
    return { agent, isProxied: proxy !== undefined };
  }

  #make(isSecure: boolean, proxy: string | undefined): PlainAgent {
    const proxyEnv = proxy === undefined ? {} : { proxyEnv: { HTTPS_PROXY: proxy, HTTP_PROXY: proxy } };
    const options = { keepAlive: true, ...proxyEnv };
    if (!isSecure) return new PlainAgent(options);
    return new SecureAgent({ ...options, ...(this.#trusted && { secureContext: this.#trusted }) });
  }

  /** Ends the kept connections. */
  close(): void {
    for (const agent of this.#made.values()) agent.destroy();
    this.#made.clear();
  }
}

/** Connections that outlive a client: the next one of the same server takes them over, with its sessions of TLS. */
export class KeptAgents {
  #kept: { readonly key: string; readonly agents: Agents } | undefined;

  /** @returns those of the call before, unless another option makes other connections. @throws as the constructor of `Agents` */
  for(options: AgentOptions): Agents {
    const key = JSON.stringify([options.ca, options.identity, options.proxy]);
    if (this.#kept?.key === key) return this.#kept.agents;
    this.#kept?.agents.close();
    this.#kept = { key, agents: new Agents(options) };
    return this.#kept.agents;
  }
}
