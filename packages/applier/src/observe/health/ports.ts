import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { cidrContains } from '@sluice/netfilter';
import { limits } from '../../limits.ts';
import { Callers } from './callers.ts';
import type { DeclaredHealth, HealthService } from './declared.ts';
import { closePort, openPort } from './port.ts';

/** What the ports need from the daemon. */
interface HealthPortsDependencies {
  /** Whether the rules in the kernel are known to be right, and the node is not drained: the value of `serviceProxyHealthy`. */
  readonly healthy: () => boolean;
  /** A client at this address is answered. */
  readonly answers: (address: string) => void;
  /** The addresses of the machine's interfaces. */
  readonly addresses: () => readonly string[];
  /** A port could not be opened; undefined: all are open. */
  readonly failed: (why: string | undefined) => void;
}

/** Listens on every address of both families; never equal to an address. */
const everywhere = '*';

/**
 * The health-check node ports of a node: load balancers check each node for a local endpoint of a Service with `externalTrafficPolicy:
 * Local`. A port is open exactly while the node's bundle has its Service. Bodies and headers are kube-proxy's
 * (`pkg/proxy/healthcheck/service_health.go`), so load balancers see no difference.
 */
export class HealthPorts {
  readonly #parts: HealthPortsDependencies;
  readonly #servers = new Map<string, Server>();
  readonly #services = new Map<number, HealthService>();
  readonly #callers = new Callers(limits.healthConnectionsMax);
  #declared: DeclaredHealth = { services: [], nodePortAddresses: [] };

  constructor(parts: HealthPortsDependencies) {
    this.#parts = parts;
  }

  /** The node has the rules of another bundle. */
  async follow(declared: DeclaredHealth): Promise<void> {
    this.count(declared);
    await this.refresh();
  }

  /** Only endpoint counts have changed: no port opens or closes. */
  count(declared: DeclaredHealth): void {
    this.#declared = declared;
    this.#services.clear();
    for (const service of declared.services) this.#services.set(service.port, service);
  }

  /** Opens missing ports, such as one that was in use or whose address is new, and closes the rest. */
  async refresh(): Promise<void> {
    const { services, nodePortAddresses } = this.#declared;
    const hosts = this.#hosts(nodePortAddresses);
    const wanted = new Map(services.flatMap(({ port }) => hosts.map((host) => [`${host} ${port}`, { host, port }])));
    for (const [key, server] of this.#servers) if (!wanted.has(key)) this.#close(key, server);
    const failures: string[] = [];
    for (const [key, { host, port }] of wanted) {
      const why = this.#servers.has(key) ? undefined : await this.#open(key, host, port);
      if (why !== undefined) failures.push(why);
    }
    this.#parts.failed(failures[0]);
  }

  /** Closes every port. */
  close(): void {
    for (const [key, server] of this.#servers) this.#close(key, server);
  }

  #hosts(cidrs: readonly string[]): readonly string[] {
    if (cidrs.length === 0) return [everywhere];
    const whole = cidrs.filter((cidr) => cidr.endsWith('/0')).map((cidr) => cidr.replace(/\/0$/, ''));
    const chosen = this.#parts.addresses().filter((address) => cidrs.some((cidr) => cidrContains(cidr, address)));
    // An address beside one that stands for all of its family is taken.
    const isApart = (address: string): boolean => !whole.some((one) => one.includes(':') === address.includes(':'));
    return [...whole, ...chosen.filter(isApart)];
  }

  /** @returns why it could not be opened */
  async #open(key: string, host: string, port: number): Promise<string | undefined> {
    const where = host === everywhere ? { port } : { port, host, ipv6Only: host.includes(':') };
    try {
      const answer = (request: IncomingMessage, response: ServerResponse): void =>
        this.#answer(port, request, response);
      this.#servers.set(key, await openPort(where, this.#callers, answer));
      return undefined;
    } catch (error) {
      return `Cannot listen on health-check node port ${port}: ${(error as Error).message}`;
    }
  }

  #close(key: string, server: Server): void {
    this.#servers.delete(key);
    closePort(server);
  }

  #answer(port: number, request: IncomingMessage, response: ServerResponse): void {
    request.resume();
    this.#parts.answers(request.socket.remoteAddress ?? '');
    const service = this.#services.get(port);
    if (!service) return void response.writeHead(404).end();
    const { namespace, name, localEndpoints } = service;
    const serviceProxyHealthy = this.#parts.healthy();
    response.writeHead(localEndpoints > 0 && serviceProxyHealthy ? 200 : 503, {
      'Content-Type': 'application/json',
      'X-Content-Type-Options': 'nosniff',
      'X-Load-Balancing-Endpoint-Weight': String(localEndpoints),
    });
    response.end(
      JSON.stringify({ service: { namespace, name }, localEndpoints, serviceProxyHealthy }, undefined, '\t'),
    );
  }
}
