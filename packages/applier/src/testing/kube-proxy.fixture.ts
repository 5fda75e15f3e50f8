import { hash16 } from './bundle.fixture.ts';

/** For tests only: rules as a kube-proxy in mode iptables writes them (pkg/proxy/iptables/proxier.go), without the hashes of its names. */

/** A Service of one port, 80 of TCP, at a cluster IP. */
export interface ProxiedService {
  readonly name: string;
  readonly address: string;
  /** Addresses with ports, such as `10.244.0.2:8080` or `[fd00:10::1]:8080`. */
  readonly endpoints: readonly string[];
}

/** The chain of a Service: no bundle of a test has it. */
export const proxyChain = (name: string): string => `KUBE-SVC-${hash16(`kube-proxy ${name}`)}`;

/** The jumps in the order of their insertion, each before all other rules of its hook and only where it is missing. */
export const proxyJumps = [
  ['nat', 'PREROUTING', 'KUBE-SERVICES', 'kubernetes service portals'],
  ['nat', 'OUTPUT', 'KUBE-SERVICES', 'kubernetes service portals'],
  ['nat', 'POSTROUTING', 'KUBE-POSTROUTING', 'kubernetes postrouting rules'],
  ['filter', 'FORWARD', 'KUBE-FORWARD', 'kubernetes forwarding rules'],
  ['filter', 'OUTPUT', 'KUBE-SERVICES', 'kubernetes service portals'],
] as const;

/** All rules of a family besides the jumps, for a restore tool. */
export function proxyRules(services: readonly ProxiedService[]): string {
  const lines = services.flatMap(linesOf);
  const text = (some: readonly string[]): string => some.map((line) => `${line}\n`).join('');
  const declared = lines.filter((line) => line.startsWith(':'));
  const rules = lines.filter((line) => !line.startsWith(':'));
  return `*filter
:KUBE-SERVICES - [0:0]
:KUBE-FORWARD - [0:0]
-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
COMMIT
*nat
:KUBE-SERVICES - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-MARK-MASQ - [0:0]
${text(declared)}-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
-A KUBE-POSTROUTING -j MARK --xor-mark 0x4000
-A KUBE-POSTROUTING -m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE --random-fully
-A KUBE-MARK-MASQ -j MARK --or-mark 0x4000
${text(rules)}-A KUBE-SERVICES -m comment --comment "node ports" -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS
COMMIT
`;
}

/** The same of a kube-proxy in mode ipvs, whose sets and virtual servers serve. */
export const ipvsProxyRules = (): string => proxyRules([]).replaceAll('KUBE-NODEPORTS', 'KUBE-NODE-PORT');

function linesOf({ name, address, endpoints }: ProxiedService): readonly string[] {
  const svc = proxyChain(name);
  const seps = endpoints.map((_, at) => `KUBE-SEP-${hash16(`kube-proxy ${name} ${at}`)}`);
  const chance = (left: number): string =>
    left > 1 ? ` -m statistic --mode random --probability ${(1 / left).toFixed(10)}` : '';
  return [
    `:${svc} - [0:0]`,
    ...seps.map((sep) => `:${sep} - [0:0]`),
    `-A KUBE-SERVICES -d ${address} -p tcp -m comment --comment "${name} cluster IP" -m tcp --dport 80 -j ${svc}`,
    ...seps.map((sep, at) => `-A ${svc} -m comment --comment "${name}"${chance(seps.length - at)} -j ${sep}`),
    ...seps.map((sep, at) => `-A ${sep} -p tcp -m tcp -j DNAT --to-destination ${endpoints[at]}`),
  ];
}
