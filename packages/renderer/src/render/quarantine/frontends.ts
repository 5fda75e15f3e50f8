import { isNodePort, printEndpoint, readFrontendKey } from '@sluice/netfilter';
import type { Service } from '../model/model.ts';

/**
 * The addresses and node ports of the files of a Service: `10.96.0.10:80/TCP`, `node port 30080/TCP`. Read from rules, virtual
 * servers and elements, for quarantined Services, whose objects are invalid.
 */
export function frontendsOfText(text: string): ReadonlySet<string> {
  const frontends = new Set<string>();
  for (const line of text.split('\n')) {
    const single = ruleFrontend(line) ?? serverFrontend(line);
    for (const each of single === undefined ? elementFrontends(line) : [single]) frontends.add(each);
  }
  return frontends;
}

/** The frontends of a line for map `svc`, or the ports of one for set `health`. */
function elementFrontends(line: string): readonly string[] {
  const [, set, elements = ''] = /^(?:@\S+ )?add element inet sluice (svc|health)[46] \{ (.*) \}$/.exec(line) ?? [];
  if (set === undefined) return [];
  return elements.split(', ').map((element) => {
    if (set === 'health') return frontendText(undefined, element, 'TCP');
    const frontend = readFrontendKey(element.slice(0, element.indexOf(' : ')));
    return frontendText(isNodePort(frontend) ? undefined : frontend.address, String(frontend.port), frontend.protocol);
  });
}

function ruleFrontend(line: string): string | undefined {
  const [, chain] = /^(?:@\S+ )?-A KUBE-(SERVICES|EXTERNAL-SERVICES|NODEPORTS) /.exec(line) ?? [];
  const [, protocol, port] = / -p (\w+)(?= ).* --dport (\d+)/.exec(line) ?? [];
  if (chain === undefined || protocol === undefined || port === undefined) return undefined;
  const [, address] = / -d (\S+)/.exec(line) ?? [];
  return frontendText(chain === 'NODEPORTS' ? undefined : address, port, protocol);
}

const serverFlags = { '-t': 'tcp', '-u': 'udp', '--sctp-service': 'sctp' } as const;

function serverFrontend(line: string): string | undefined {
  const [, flag, server = ''] = /^(?:@\S+ )?-A (-t|-u|--sctp-service) (\S+)/.exec(line) ?? [];
  if (flag === undefined) return undefined;
  const colon = server.lastIndexOf(':');
  const address = server.slice(0, colon).replaceAll(/[[\]]/g, '');
  const protocol = serverFlags[flag as keyof typeof serverFlags];
  return frontendText(address.startsWith('$') ? undefined : address, server.slice(colon + 1), protocol);
}

function frontendText(address: string | undefined, port: string, protocol: string): string {
  const where = address === undefined ? `node port ${port}` : printEndpoint(address, Number(port));
  return `${where}/${protocol.toUpperCase()}`;
}

/** The frontends of a Service of the model, in the same form. */
export function frontendsOf(service: Service): ReadonlySet<string> {
  const frontends = new Set<string>();
  for (const { protocol, port, nodePort, healthCheckNodePort, families } of service.ports) {
    for (const { clusterIP, externalIPs, loadBalancerIPs } of Object.values(families))
      for (const address of [clusterIP, ...externalIPs, ...loadBalancerIPs])
        frontends.add(frontendText(address, String(port), protocol));
    if (nodePort > 0) frontends.add(frontendText(undefined, String(nodePort), protocol));
    if (healthCheckNodePort > 0) frontends.add(frontendText(undefined, String(healthCheckNodePort), 'TCP'));
  }
  return frontends;
}
