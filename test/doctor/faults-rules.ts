import type { DoctorNode } from './node.ts';
import { pick } from './plan.ts';
import type { Fault } from './faults.ts';

const isIptables = ({ mode }: { readonly mode: string }): boolean => mode === 'iptables';
const isNftables = ({ mode }: { readonly mode: string }): boolean => mode === 'nftables';

const restore = (node: DoctorNode, lines: readonly string[], tool = node.iptables): Promise<string> =>
  node.host.run([`${tool}-restore`, '--noflush'], { input: `${lines.join('\n')}\n` });
/** nft ends a block on a line of its own. */
const nft = (node: DoctorNode, text: string): Promise<string> =>
  node.host.run(['nft', '-f', '-'], { input: text.replaceAll('; }', ';\n}\n').replaceAll(/\}\s*\}/g, '}\n}') });
const ip = ({ drawn }: DoctorNode): string => (drawn.family === 'ipv4' ? 'ip' : 'ip6');
/** The other rule store. */
const other = (node: DoctorNode): string =>
  `${node.drawn.family === 'ipv4' ? 'iptables' : 'ip6tables'}-${node.drawn.plane.backend === 'nft' ? 'legacy' : 'nft'}`;

/** A line of `iptables -S` of Sluice's that a test picks. */
async function ownRule(node: DoctorNode, table: string, form: RegExp): Promise<string> {
  const rules = (await node.sh(`${node.iptables}-save -t ${table}`))
    .split('\n')
    .filter((line) => line.startsWith('-A ') && form.test(line));
  if (rules.length === 0) throw new Error(`No rule of ${table} is like ${String(form)}`);
  return pick(rules, node.drawn.random);
}

/** Rules: lost, changed, doubled, and foreign ones in the way. */
export const ruleFaults: readonly Fault[] = [
  {
    name: 'another program flushed nat',
    cause: 'RULES_DIFFER',
    only: isIptables,
    make: (node) => node.sh(`${node.iptables} -t nat -F`),
  },
  {
    name: 'another program flushed filter',
    cause: 'RULES_DIFFER',
    only: isIptables,
    make: (node) => node.sh(`${node.iptables} -F`),
  },
  {
    name: 'a firewall reload removed the jump of nat PREROUTING',
    cause: 'RULES_DIFFER',
    only: isIptables,
    make: (node) => node.sh(`${node.iptables} -t nat -F PREROUTING`),
  },
  {
    name: 'a firewall reload removed the jump of nat OUTPUT',
    cause: 'RULES_DIFFER',
    only: isIptables,
    make: (node) => node.sh(`${node.iptables} -t nat -F OUTPUT`),
  },
  {
    name: 'the rule that masquerades was removed',
    cause: 'RULES_DIFFER',
    only: isIptables,
    make: (node) => node.sh(`${node.iptables} -t nat -F POSTROUTING`),
  },
  {
    name: 'one rule of the Service was deleted by hand',
    cause: 'RULES_DIFFER',
    only: isIptables,
    async make(node) {
      const rule = await ownRule(node, 'nat', / -j DNAT /);
      await restore(node, ['*nat', rule.replace(/^-A /, '-D '), 'COMMIT']);
    },
  },
  {
    name: 'a translation was changed to another port by hand',
    cause: 'RULES_DIFFER',
    only: isIptables,
    async make(node) {
      const rule = await ownRule(node, 'nat', / -j DNAT /);
      await restore(node, ['*nat', rule.replace(/^-A /, '-D '), rule.replace(/:\d+$/, ':9'), 'COMMIT']);
    },
  },
  {
    name: 'another program flushed the whole ruleset of nftables',
    cause: 'RULES_DIFFER',
    only: isNftables,
    make: (node) => node.sh('nft flush ruleset'),
  },
  {
    name: 'the table of mode nftables was deleted',
    cause: 'RULES_DIFFER',
    only: isNftables,
    make: (node) => node.sh('nft delete table inet sluice'),
  },
  {
    name: 'a base chain of mode nftables was flushed',
    cause: 'RULES_DIFFER',
    only: isNftables,
    async make(node) {
      const listed = await node.sh('nft list table inet sluice');
      const chains = [...listed.matchAll(/chain (\S+) \{\n\s+type nat hook prerouting/g)].map(([, name]) => name);
      await node.sh(`nft flush chain inet sluice ${chains[0] ?? 'missing'}`);
    },
  },
  {
    name: 'the kernel was told to route local addresses no more',
    cause: 'SYSCTL_DIFFERS',
    only: isIptables,
    make: (node) => node.sh('sysctl -q -w net.ipv4.conf.all.route_localnet=0'),
  },
  {
    name: 'a kube-proxy was started again',
    cause: 'KUBE_PROXY_RUNNING',
    async make(node) {
      node.host.start(['sh', '-c', `cp "$(command -v sleep)" /run/kube-proxy && exec /run/kube-proxy 300`]);
      await node.sh('until grep -qa kube-proxy /proc/[0-9]*/comm 2>/dev/null; do sleep 0.05; done');
    },
  },
  {
    name: "a former kube-proxy's jumps are first",
    cause: 'KUBE_PROXY_LEFTOVERS',
    only: ({ mode, layout }) => mode === 'iptables' && layout === 'tree',
    make: (node) =>
      restore(node, [
        '*nat',
        ':KUBE-SERVICES - [0:0]',
        '-I PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
        `-A KUBE-SERVICES -d ${node.drawn.clusterIP} -p tcp -m tcp --dport ${node.drawn.port} -j DNAT --to-destination ${node.drawn.family === 'ipv4' ? '10.244.9.9:80' : '[fd00:244:9::9]:80'}`,
        'COMMIT',
      ]),
  },
  {
    name: 'a former kube-proxy in mode nftables left its table',
    cause: 'KUBE_PROXY_LEFTOVERS',
    make: (node) =>
      nft(node, `table ${ip(node)} kube-proxy { chain nat-prerouting { type nat hook prerouting priority -100; } }\n`),
  },
  {
    name: 'legacy and nft are mixed: the other store has the rules of a kube-proxy',
    cause: 'RULES_IN_BOTH_STORES',
    // In mode nftables no packet of a Service meets them.
    only: ({ mode }) => mode !== 'nftables',
    make: (node) =>
      restore(
        node,
        [
          '*nat',
          ':KUBE-SERVICES - [0:0]',
          '-A PREROUTING -j KUBE-SERVICES',
          `-A KUBE-SERVICES -d ${node.drawn.clusterIP} -j RETURN`,
          'COMMIT',
        ],
        other(node),
      ),
  },
  {
    name: 'the policy of FORWARD is DROP',
    cause: 'FOREIGN_DROP',
    service: { endpoints: ['b1'], internalPolicy: 'Cluster' },
    make: (node) => node.sh(`${node.iptables} -P FORWARD DROP`),
  },
  {
    name: 'the policy of FORWARD is DROP in the other rule store',
    cause: 'FOREIGN_DROP',
    make: (node) => node.sh(`${other(node)} -P FORWARD DROP`),
  },
  {
    name: 'the policy of OUTPUT is DROP',
    cause: 'FOREIGN_DROP',
    make: (node) => node.sh(`${node.iptables} -P OUTPUT DROP`),
  },
  {
    name: 'a firewall drops what is forwarded to the pods',
    cause: 'FOREIGN_DROP',
    make: (node) =>
      node.sh(
        `${node.iptables} -I FORWARD -d ${node.drawn.family === 'ipv4' ? '10.244.0.0/16' : 'fd00:244::/32'} -j DROP`,
      ),
  },
  {
    name: 'a firewall rejects the port of the endpoints',
    cause: 'FOREIGN_DROP',
    make: (node) => node.sh(`${node.iptables} -I FORWARD -p tcp -m tcp --dport ${node.drawn.targetPort} -j REJECT`),
  },
  {
    name: 'a firewall drops the replies of the endpoints',
    cause: 'FOREIGN_DROP',
    make: (node) => node.sh(`${node.iptables} -t mangle -I PREROUTING -s ${node.address('b1')} -j DROP`),
    service: { endpoints: ['b1'] },
  },
  {
    name: 'a rule in raw drops packets to the address',
    cause: 'FOREIGN_DROP',
    make: (node) => node.sh(`${node.iptables} -t raw -A PREROUTING -d ${node.drawn.clusterIP} -j DROP`),
  },
  {
    name: 'a rule in mangle drops packets of the node to the address',
    cause: 'FOREIGN_DROP',
    make: (node) => node.sh(`${node.iptables} -t mangle -A OUTPUT -d ${node.drawn.clusterIP} -j DROP`),
  },
  {
    name: 'an administrator chain drops the client interface',
    cause: 'FOREIGN_DROP',
    make: (node) =>
      restore(node, [
        '*filter',
        ':ADMIN - [0:0]',
        '-I FORWARD -j ADMIN',
        `-A ADMIN -m comment --comment "no pods -j ACCEPT" -o eth0 -j DROP`,
        'COMMIT',
      ]),
    service: { endpoints: ['b1'] },
  },
  {
    name: 'a table of nftables drops what is forwarded',
    cause: 'FOREIGN_DROP',
    make: (node) =>
      nft(
        node,
        `table inet fw { chain forward { type filter hook forward priority 0; policy drop; ct state established,related accept; } }\n`,
      ),
  },
  {
    name: "a table of nftables under the name of one of iptables' drops what is forwarded",
    cause: 'FOREIGN_DROP',
    make: (node) =>
      nft(
        node,
        `table ${ip(node)} filter { chain forward { type filter hook forward priority 5; policy drop; jump known; }\n chain known { ct state established,related accept; } }\n`,
      ),
  },
  {
    name: 'a table of nftables drops the port of the endpoints',
    cause: 'FOREIGN_DROP',
    make: (node) =>
      nft(
        node,
        `table inet fw { chain in { jump ports; } \n chain ports { tcp dport { 22, ${node.drawn.targetPort} } drop; }\n chain forward { type filter hook forward priority -5; policy accept; jump in; } chain output { type filter hook output priority -5; policy accept; jump in; } }\n`,
      ),
  },
  {
    name: 'a rule of nftables drops the address before routing',
    cause: 'FOREIGN_DROP',
    make: (node) =>
      nft(
        node,
        `table ${ip(node)} block { chain early { type filter hook prerouting priority -400; ${ip(node)} daddr ${node.drawn.clusterIP} drop; } }\n`,
      ),
  },
  {
    name: 'a rule with a set drops the address: only a traced packet shows it',
    cause: 'FOREIGN_DROP',
    args: ['--live'],
    make: (node) =>
      nft(
        node,
        `table ${ip(node)} block { set listed { type ${node.drawn.family}_addr; elements = { ${node.drawn.clusterIP} }; }\n chain out { type filter hook output priority -250; ${ip(node)} daddr @listed drop; } }\n`,
      ),
  },
  {
    name: 'packets to the address are not tracked',
    cause: 'FOREIGN_NOTRACK',
    make: (node) => node.sh(`${node.iptables} -t raw -A PREROUTING -d ${node.drawn.clusterIP} -j CT --notrack`),
  },
  {
    name: 'nftables exempts the port from tracking',
    cause: 'FOREIGN_NOTRACK',
    make: (node) =>
      nft(
        node,
        `table inet fast { chain pre { type filter hook prerouting priority -300; tcp dport ${node.drawn.port} notrack; } }\n`,
      ),
  },
  {
    name: 'a rule before the jumps accepts packets to the address in nat',
    cause: 'FOREIGN_TRANSLATION',
    only: isIptables,
    make: (node) => node.sh(`${node.iptables} -t nat -I PREROUTING -d ${node.drawn.clusterIP} -j ACCEPT`),
  },
  {
    name: 'a rule before the jumps redirects the port to a proxy',
    cause: 'FOREIGN_TRANSLATION',
    only: isIptables,
    make: (node) =>
      node.sh(
        `${node.iptables} -t nat -I OUTPUT -p tcp -m tcp --dport ${node.drawn.port} -j REDIRECT --to-ports 15001`,
      ),
  },
  {
    name: 'nftables translates the address before Sluice does',
    cause: 'FOREIGN_TRANSLATION',
    make: (node) =>
      nft(
        node,
        `table ${ip(node)} lb { chain pre { type nat hook prerouting priority -150; ${ip(node)} daddr ${node.drawn.clusterIP} dnat to ${node.address('c1')}; } }\n`,
      ),
  },
];
