import { readRuleFile } from '../../../bundle/src/read-rulefile.ts';
import type { TableName } from '../family.ts';
import type { ResolvedRules } from './program.ts';

/**
 * kube-proxy's rules on a node for one Service of type LoadBalancer: `shop/cart`, port `http` 80/TCP, cluster address
 * 10.96.7.1, external address 192.0.2.50, load-balancer address 203.0.113.9 open to 198.51.100.0/24, node port 30080, health
 * check port 32000, external policy Local, affinity 600 s, endpoint 10.244.2.9 on this node and two on others.
 */
export const filter = `\
-A KUBE-FIREWALL -m comment --comment "block incoming localnet connections" -d 127.0.0.0/8 ! -s 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP
-A KUBE-PROXY-FIREWALL -m comment --comment "shop/cart:http traffic not accepted by KUBE-FW-I5LIAMPLWKMBJ54B" -m tcp -p tcp -d 203.0.113.9 --dport 80 -j DROP
-A KUBE-NODEPORTS -m comment --comment "shop/cart:http health check node port" -m tcp -p tcp --dport 32000 -j ACCEPT
-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
-A KUBE-FORWARD -m comment --comment "kubernetes forwarding rules" -m mark --mark 0x00004000/0x00004000 -j ACCEPT
-A KUBE-FORWARD -m comment --comment "kubernetes forwarding conntrack rule" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
`;

export const nat = `\
-A KUBE-POSTROUTING -m mark ! --mark 0x00004000/0x00004000 -j RETURN
-A KUBE-POSTROUTING -j MARK --xor-mark 0x00004000
-A KUBE-POSTROUTING -m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE --random-fully
-A KUBE-MARK-MASQ -j MARK --or-mark 0x00004000
-A KUBE-SERVICES -m comment --comment "shop/cart:http cluster IP" -m tcp -p tcp -d 10.96.7.1 --dport 80 -j KUBE-SVC-I5LIAMPLWKMBJ54B
-A KUBE-SERVICES -m comment --comment "shop/cart:http external IP" -m tcp -p tcp -d 192.0.2.50 --dport 80 -j KUBE-EXT-I5LIAMPLWKMBJ54B
-A KUBE-SERVICES -m comment --comment "shop/cart:http loadbalancer IP" -m tcp -p tcp -d 203.0.113.9 --dport 80 -j KUBE-FW-I5LIAMPLWKMBJ54B
-A KUBE-NODEPORTS -m comment --comment shop/cart:http -m tcp -p tcp --dport 30080 -j KUBE-EXT-I5LIAMPLWKMBJ54B
-A KUBE-SVC-I5LIAMPLWKMBJ54B -m comment --comment "shop/cart:http cluster IP" -m tcp -p tcp -d 10.96.7.1 --dport 80 ! -s 10.244.0.0/16 -j KUBE-MARK-MASQ
-A KUBE-EXT-I5LIAMPLWKMBJ54B -m comment --comment "pod traffic for shop/cart:http external destinations" -s 10.244.0.0/16 -j KUBE-SVC-I5LIAMPLWKMBJ54B
-A KUBE-EXT-I5LIAMPLWKMBJ54B -m comment --comment "masquerade LOCAL traffic for shop/cart:http external destinations" -m addrtype --src-type LOCAL -j KUBE-MARK-MASQ
-A KUBE-EXT-I5LIAMPLWKMBJ54B -m comment --comment "route LOCAL traffic for shop/cart:http external destinations" -m addrtype --src-type LOCAL -j KUBE-SVC-I5LIAMPLWKMBJ54B
-A KUBE-EXT-I5LIAMPLWKMBJ54B -j KUBE-SVL-I5LIAMPLWKMBJ54B
-A KUBE-FW-I5LIAMPLWKMBJ54B -m comment --comment "shop/cart:http loadbalancer IP" -s 198.51.100.0/24 -j KUBE-EXT-I5LIAMPLWKMBJ54B
-A KUBE-FW-I5LIAMPLWKMBJ54B -m comment --comment "other traffic to shop/cart:http will be dropped by KUBE-PROXY-FIREWALL"
-A KUBE-SVC-I5LIAMPLWKMBJ54B -m comment --comment "shop/cart:http -> 10.244.1.7:8080" -m recent --name KUBE-SEP-HR5QIAI7KRESNQ5F --rcheck --seconds 600 --reap -j KUBE-SEP-HR5QIAI7KRESNQ5F
-A KUBE-SVC-I5LIAMPLWKMBJ54B -m comment --comment "shop/cart:http -> 10.244.2.9:8080" -m recent --name KUBE-SEP-BQDHVMWANCT6EYGM --rcheck --seconds 600 --reap -j KUBE-SEP-BQDHVMWANCT6EYGM
-A KUBE-SVC-I5LIAMPLWKMBJ54B -m comment --comment "shop/cart:http -> 10.244.3.3:8080" -m recent --name KUBE-SEP-ZNEKD56SUVBWUDHI --rcheck --seconds 600 --reap -j KUBE-SEP-ZNEKD56SUVBWUDHI
-A KUBE-SVC-I5LIAMPLWKMBJ54B -m comment --comment "shop/cart:http -> 10.244.1.7:8080" -m statistic --mode random --probability 0.3333333333 -j KUBE-SEP-HR5QIAI7KRESNQ5F
-A KUBE-SVC-I5LIAMPLWKMBJ54B -m comment --comment "shop/cart:http -> 10.244.2.9:8080" -m statistic --mode random --probability 0.5000000000 -j KUBE-SEP-BQDHVMWANCT6EYGM
-A KUBE-SVC-I5LIAMPLWKMBJ54B -m comment --comment "shop/cart:http -> 10.244.3.3:8080" -j KUBE-SEP-ZNEKD56SUVBWUDHI
-A KUBE-SVL-I5LIAMPLWKMBJ54B -m comment --comment "shop/cart:http -> 10.244.2.9:8080" -m recent --name KUBE-SEP-BQDHVMWANCT6EYGM --rcheck --seconds 600 --reap -j KUBE-SEP-BQDHVMWANCT6EYGM
-A KUBE-SVL-I5LIAMPLWKMBJ54B -m comment --comment "shop/cart:http -> 10.244.2.9:8080" -j KUBE-SEP-BQDHVMWANCT6EYGM
-A KUBE-SEP-HR5QIAI7KRESNQ5F -m comment --comment shop/cart:http -s 10.244.1.7 -j KUBE-MARK-MASQ
-A KUBE-SEP-HR5QIAI7KRESNQ5F -m comment --comment shop/cart:http -m recent --name KUBE-SEP-HR5QIAI7KRESNQ5F --set -m tcp -p tcp -j DNAT --to-destination 10.244.1.7:8080
-A KUBE-SEP-BQDHVMWANCT6EYGM -m comment --comment shop/cart:http -s 10.244.2.9 -j KUBE-MARK-MASQ
-A KUBE-SEP-BQDHVMWANCT6EYGM -m comment --comment shop/cart:http -m recent --name KUBE-SEP-BQDHVMWANCT6EYGM --set -m tcp -p tcp -j DNAT --to-destination 10.244.2.9:8080
-A KUBE-SEP-ZNEKD56SUVBWUDHI -m comment --comment shop/cart:http -s 10.244.3.3 -j KUBE-MARK-MASQ
-A KUBE-SEP-ZNEKD56SUVBWUDHI -m comment --comment shop/cart:http -m recent --name KUBE-SEP-ZNEKD56SUVBWUDHI --set -m tcp -p tcp -j DNAT --to-destination 10.244.3.3:8080
-A KUBE-SERVICES -m comment --comment "kubernetes service nodeports; NOTE: this must be the last rule in this chain" -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS
`;

const baseChains = {
  filter: [
    'KUBE-SERVICES',
    'KUBE-EXTERNAL-SERVICES',
    'KUBE-FORWARD',
    'KUBE-NODEPORTS',
    'KUBE-PROXY-FIREWALL',
    'KUBE-FIREWALL',
  ],
  nat: ['KUBE-SERVICES', 'KUBE-NODEPORTS', 'KUBE-POSTROUTING', 'KUBE-MARK-MASQ'],
} as const;

type CartEdit = (text: string) => string;
type Edits = { readonly [T in TableName]?: CartEdit };

const unchanged: CartEdit = (text) => text;

/** The Service's rules for IPv4, with edits of their text: `cart({ nat: (text) => text.replace(…) })`. */
export function cart(edits: Edits = {}): ResolvedRules {
  return {
    filter: section('filter', (edits.filter ?? unchanged)(filter)),
    nat: section('nat', (edits.nat ?? unchanged)(nat)),
  };
}

/** The same Service for IPv6: other addresses, no rule for localhost, a tail without ::1. */
export function cartIPv6(): ResolvedRules {
  return cart({ filter: toIPv6, nat: toIPv6 });
}

const ipv6Of: readonly (readonly [string, string])[] = [
  ['10.244.0.0/16', 'fd00:10:244::/56'],
  ['198.51.100.0/24', '2001:db8:51::/48'],
  ['10.96.7.1', 'fd00:10:96::7'],
  ['192.0.2.50', '2001:db8::50'],
  ['203.0.113.9', '2001:db8:113::9'],
  ['--dst-type LOCAL -j', '--dst-type LOCAL ! -d ::1/128 -j'],
];

function toIPv6(text: string): string {
  const lines = text.split('\n').filter((line) => !line.startsWith('-A KUBE-FIREWALL'));
  const endpoints = lines
    .join('\n')
    .replaceAll(/10\.244\.(\d)\.(\d)(:8080)?/g, (_all, net: string, host: string, port) =>
      port === undefined ? `fd00:10:244:${net}::${host}` : `[fd00:10:244:${net}::${host}]:8080`,
    );
  return ipv6Of.reduce((done, [from, to]) => done.replaceAll(from, to), endpoints);
}

/** Rules as lines, with declarations of their chains. */
function section(table: TableName, text: string): ResolvedRules['nat'] {
  const names = [...text.matchAll(/^-A (\S+)/gm)].map((match) => match[1] ?? '');
  const chains = [...new Set([...baseChains[table], ...names])];
  const file = readRuleFile('cart', `*${table}\n${chains.map((name) => `:${name} - [0:0]\n`).join('')}${text}COMMIT\n`);
  if (!('sections' in file)) throw new Error(file.map((problem) => problem.message).join('\n'));
  return { chains, rules: file.sections[0]?.rules.map((rule) => rule.text) ?? [] };
}

const noLocal = '-A KUBE-EXTERNAL-SERVICES -m comment --comment "shop/cart:http has no local endpoints"';

/** The Service on a node without local endpoints. */
export const withoutLocal = cart({
  filter: (text) =>
    `${text}${noLocal} -m tcp -p tcp -d 203.0.113.9 --dport 80 -j DROP\n` +
    `${noLocal} -m addrtype --dst-type LOCAL -m tcp -p tcp --dport 30080 -j DROP\n`,
  nat: (text) => text.replaceAll(/^.*KUBE-SVL.*\n/gm, ''),
});

const refuse = (chain: string, match: string): string =>
  `-A ${chain} -m comment --comment "shop/cart:http has no endpoints" ${match} -j REJECT\n`;

/** The Service without endpoints. */
export const withoutEndpoints = cart({
  filter: (text) =>
    text.replace(/^.*not accepted by.*\n/m, '') +
    refuse('KUBE-SERVICES', '-m tcp -p tcp -d 10.96.7.1 --dport 80') +
    refuse('KUBE-EXTERNAL-SERVICES', '-m tcp -p tcp -d 203.0.113.9 --dport 80') +
    refuse('KUBE-EXTERNAL-SERVICES', '-m addrtype --dst-type LOCAL -m tcp -p tcp --dport 30080'),
  nat: (text) => text.replaceAll(/^.*KUBE-(EXT|FW|SVC|SVL|SEP)-.*\n/gm, ''),
});

/** The Service with external policy Cluster. */
export const clusterPolicy = cart({
  nat: (text) =>
    text
      .replaceAll(/^-A KUBE-EXT-.*(pod traffic|route LOCAL).*\n/gm, '')
      .replace('masquerade LOCAL traffic', 'masquerade traffic')
      .replace('-m addrtype --src-type LOCAL -j KUBE-MARK-MASQ', '-j KUBE-MARK-MASQ')
      .replace(/(?<=-A KUBE-EXT-\w+ -j )KUBE-SVL/, 'KUBE-SVC'),
});
