import type { FamilyProgram } from '../../../netfilter/src/link/program.ts';
import { linkFlat } from '../../../netfilter/src/link/flat.ts';
import { resolveNode, type ResolvedNode } from '../node.ts';
import { knownSet, setKeys, setName } from '../../../netfilter/src/rules/sets.ts';
import { ipvsHost, readIpvs } from '../../../netfilter/src/virtual/state.ts';
import { type IpvsState, printCreate } from '../../../netfilter/src/virtual/values.ts';

/** A rule that matches a set, with kube-proxy's comment. */
function matchSet(chain: string, set: (typeof setKeys)[number], sides: string, rest: string, protocol = ''): string {
  const of = `-m comment --comment "${knownSet(set).comment}" -m set --match-set ${set} ${sides}`;
  return `-A ${chain}${protocol && ` -p ${protocol}`} ${of} ${rest}`;
}

/** kube-proxy's rules of mode ipvs for IPv4, for any Services (`writeIptablesRules` in `pkg/proxy/ipvs/proxier.go`). */
const filter = [
  matchSet('KUBE-PROXY-FIREWALL', 'KUBE-LOAD-BALANCER-FW', 'dst,dst', '-j KUBE-SOURCE-RANGES-FIREWALL'),
  matchSet('KUBE-SOURCE-RANGES-FIREWALL', 'KUBE-LOAD-BALANCER-SOURCE-CIDR', 'dst,dst,src', '-j RETURN'),
  matchSet('KUBE-SOURCE-RANGES-FIREWALL', 'KUBE-LOAD-BALANCER-SOURCE-IP', 'dst,dst,src', '-j RETURN'),
  '-A KUBE-SOURCE-RANGES-FIREWALL -j DROP',
  '-A KUBE-FORWARD -m comment --comment "kubernetes forwarding rules" -m mark --mark 0x00004000/0x00004000 -j ACCEPT',
  '-A KUBE-FORWARD -m comment --comment "kubernetes forwarding conntrack rule" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
  matchSet('KUBE-NODE-PORT', 'KUBE-HEALTH-CHECK-NODE-PORT', 'dst', '-j ACCEPT'),
  ...['KUBE-LOAD-BALANCER', 'KUBE-CLUSTER-IP', 'KUBE-EXTERNAL-IP', 'KUBE-EXTERNAL-IP-LOCAL'].map(
    (set) => `-A KUBE-IPVS-FILTER -m set --match-set ${set} dst,dst -j RETURN`,
  ),
  '-A KUBE-IPVS-FILTER -m set --match-set KUBE-HEALTH-CHECK-NODE-PORT dst -j RETURN',
  '-A KUBE-IPVS-FILTER -m conntrack --ctstate NEW -m set --match-set KUBE-IPVS-IPS dst -j REJECT',
];
const bypass = '-m physdev ! --physdev-is-in -m addrtype ! --src-type LOCAL -j ACCEPT';
const nat = [
  '-A KUBE-SERVICES -s 127.0.0.0/8 -j RETURN',
  matchSet('KUBE-POSTROUTING', 'KUBE-LOOP-BACK', 'dst,dst,src', '-j MASQUERADE'),
  matchSet('KUBE-SERVICES', 'KUBE-LOAD-BALANCER', 'dst,dst', '-j KUBE-LOAD-BALANCER'),
  matchSet('KUBE-LOAD-BALANCER', 'KUBE-LOAD-BALANCER-LOCAL', 'dst,dst', '-j RETURN'),
  matchSet('KUBE-NODE-PORT', 'KUBE-NODE-PORT-LOCAL-TCP', 'dst', '-j RETURN', 'tcp'),
  matchSet('KUBE-NODE-PORT', 'KUBE-NODE-PORT-TCP', 'dst', '-j KUBE-MARK-MASQ', 'tcp'),
  matchSet('KUBE-SERVICES', 'KUBE-CLUSTER-IP', 'dst,dst', '! -s ${profile.clusterCIDR} -j KUBE-MARK-MASQ'),
  matchSet('KUBE-SERVICES', 'KUBE-EXTERNAL-IP', 'dst,dst', '-j KUBE-MARK-MASQ'),
  matchSet('KUBE-SERVICES', 'KUBE-EXTERNAL-IP', 'dst,dst', bypass),
  matchSet('KUBE-SERVICES', 'KUBE-EXTERNAL-IP', 'dst,dst', '-m addrtype --dst-type LOCAL -j ACCEPT'),
  '-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODE-PORT',
  '-A KUBE-LOAD-BALANCER -j KUBE-MARK-MASQ',
  '-A KUBE-SERVICES -m set --match-set KUBE-CLUSTER-IP dst,dst -j ACCEPT',
  '-A KUBE-SERVICES -m set --match-set KUBE-LOAD-BALANCER dst,dst -j ACCEPT',
  '-A KUBE-POSTROUTING -m mark ! --mark 0x00004000/0x00004000 -j RETURN',
  '-A KUBE-POSTROUTING -j MARK --xor-mark 0x00004000',
  '-A KUBE-POSTROUTING -m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE --random-fully',
  '-A KUBE-MARK-MASQ -j MARK --or-mark 0x00004000',
];
const chains = {
  filter: 'FORWARD NODE-PORT PROXY-FIREWALL SOURCE-RANGES-FIREWALL IPVS-FILTER IPVS-OUT-FILTER',
  nat: 'SERVICES POSTROUTING NODE-PORT LOAD-BALANCER MARK-MASQ',
};
const declare = (names: string): string => names.replaceAll(/(\S+) ?/g, ':KUBE-$1 - [0:0]\n');

const head = (kind: string): string => `apiVersion: sluice.dev/v1alpha1\nkind: ${kind}\n`;
const profilePath = 'profiles/default';

/** The Service's entries and servers: port 80, every kind of address, source ranges, policy Local outside, affinity. */
const web = {
  ipset: `# shop/web LoadBalancer
add KUBE-CLUSTER-IP 10.96.0.10,tcp:80
add KUBE-EXTERNAL-IP 192.0.2.50,tcp:80
add KUBE-IPVS-IPS 10.96.0.10
add KUBE-IPVS-IPS 192.0.2.50
add KUBE-IPVS-IPS 203.0.113.9
add KUBE-LOAD-BALANCER 203.0.113.9,tcp:80
add KUBE-LOAD-BALANCER-FW 203.0.113.9,tcp:80
add KUBE-LOAD-BALANCER-LOCAL 203.0.113.9,tcp:80
add KUBE-LOAD-BALANCER-SOURCE-CIDR 203.0.113.9,tcp:80,198.51.100.0/24
@node=node-a add KUBE-LOOP-BACK 10.244.1.5,tcp:8080,10.244.1.5
add KUBE-NODE-PORT-TCP 30080
`,
  ipvs: `# shop/web LoadBalancer
-A -t 10.96.0.10:80 -s rr
-a -t 10.96.0.10:80 -r 10.244.1.5:8080 -m -w 1
-a -t 10.96.0.10:80 -r 10.244.2.6:8080 -m -w 1
-A -t 192.0.2.50:80 -s wrr -p 600
-a -t 192.0.2.50:80 -r 10.244.1.5:8080 -m -w 3
-a -t 192.0.2.50:80 -r 10.244.2.6:8080 -m -w 1
-a -t 192.0.2.50:80 -r 10.244.3.7:8080 -m -w 0
-A -t 203.0.113.9:80 -s rr
@node=node-a -a -t 203.0.113.9:80 -r 10.244.1.5:8080 -m -w 1
@nolocal=203.0.113.9:80/TCP -a -t 203.0.113.9:80 -r 10.244.1.5:8080 -m -w 1
@nolocal=203.0.113.9:80/TCP -a -t 203.0.113.9:80 -r 10.244.2.6:8080 -m -w 1
-A -t \${host.nodePortAddresses}:30080 -s rr
-a -t \${host.nodePortAddresses}:30080 -r 10.244.2.6:8080 -m -w 1
`,
  iptables: `*filter
@ip-not-in=198.51.100.0/24 -A KUBE-IPVS-OUT-FILTER -s 203.0.113.9 -m ipvs --vaddr 203.0.113.9 --vproto tcp --vport 80 -j DROP
COMMIT
`,
};

/** A bundle in mode ipvs: Service shop/web with pods on node-a and others, and shop/idle without any. */
export const ipvsBundle: ReadonlyMap<string, string> = new Map([
  ['cluster.yaml', `${head('Cluster')}format: 1\nname: shop\ncomplete: true\nserviceCIDRs: [10.96.0.0/12]\n`],
  [
    `${profilePath}/profile.yaml`,
    `${head('Profile')}mode: ipvs\nipvs: { scheduler: rr, excludeCIDRs: [], strictARP: false }\nfamilies: [ipv4]\nneeds: []\nnodePortAddresses: []\nvalues:\n  ipv4: { clusterCIDR: 10.244.0.0/16 }\n`,
  ],
  [
    `${profilePath}/base/first.ipset`,
    setKeys
      .map((key) => `${printCreate({ name: setName(key, 'ipv4'), family: 'ipv4', type: knownSet(key).type })}\n`)
      .join(''),
  ],
  [`${profilePath}/base/first.ipvs`, '--set 900 120 300\n'],
  [
    `${profilePath}/base/first.iptables`,
    `*filter\n${declare(chains.filter)}${filter.join('\n')}\nCOMMIT\n*nat\n${declare(chains.nat)}${nat.join('\n')}\nCOMMIT\n`,
  ],
  [`${profilePath}/base/sysctl.conf`, '@kernel=4.1..5.8 net.ipv4.vs.conn_reuse_mode = 0\nnet.ipv4.ip_forward = 1\n'],
  ...Object.entries(web).map(([tool, text]): [string, string] => [`${profilePath}/services/shop/web.${tool}`, text]),
  [`${profilePath}/services/shop/idle.ipset`, 'add KUBE-CLUSTER-IP 10.96.0.99,tcp:80\nadd KUBE-IPVS-IPS 10.96.0.99\n'],
  [`${profilePath}/services/shop/idle.ipvs`, '-A -t 10.96.0.99:80 -s rr\n'],
  ...['node-a', 'node-b'].map((name, index): [string, string] => [
    `nodes/${name}/node.yaml`,
    `${head('Node')}profile: default\nvalues:\n  ipv4: { address: 192.0.2.1${index + 1} }\n`,
  ]),
]);

/** The bundle with an edit of one file. */
export function edited(path: string, edit: (text: string) => string): ReadonlyMap<string, string> {
  const whole = `${profilePath}/${path}`;
  return new Map([...ipvsBundle, [whole, edit(ipvsBundle.get(whole) ?? '')]]);
}

/** The state of a node in mode ipvs whose machine has the node's own address only. */
export function ipvsNode(
  node: string,
  files = ipvsBundle,
): { readonly resolved: ResolvedNode; readonly program: FamilyProgram; readonly ipvs: IpvsState } {
  const resolved = resolveNode(files, node);
  if (!('version' in resolved)) throw new Error(JSON.stringify(resolved));
  const address = node === 'node-a' ? '192.0.2.11' : '192.0.2.12';
  const host = ipvsHost(resolved.profile, { ipv4: ['127.0.0.1', address], ipv6: ['::1'] });
  const ipvs = readIpvs(resolved.ipvs ?? { ipset: [], ipvs: [] }, resolved.profile.families, host);
  const rules = resolved.rules.ipv4;
  if ('problems' in ipvs || !rules) throw new Error(JSON.stringify(ipvs));
  const { program, problems } = linkFlat(rules, 'ipv4', undefined, 'ipvs');
  if (problems.length > 0) throw new Error(JSON.stringify(problems));
  return { resolved, program, ipvs };
}
