import { expect, test } from 'vitest';
import { cart, withoutEndpoints } from './cart.fixture.ts';
import { linkFlat } from './flat.ts';
import { isOwnChain, partOfService, printPart, serviceKeyOf } from './of-service.ts';
import type { FamilyProgram, ResolvedRules } from './program.ts';
import { settledProgram } from './tree/flatten.ts';
import { linkTree, sectionsOf } from './tree/link.ts';

type Layout = 'flat' | 'tree';
const layouts = ['flat', 'tree'] as const satisfies readonly Layout[];

/** The cart beside a Service with the same prefix in its name, and one in another namespace. */
function crowded(rules: ResolvedRules): ResolvedRules {
  const neighbour = (name: string, hash: string, address: string): readonly string[] =>
    rules.nat.rules
      .filter(
        (rule) =>
          /(?:KUBE-SERVICES|KUBE-SVC-\S+) .*cart:http/.test(rule) && !/recent|external IP|loadbalancer/.test(rule),
      )
      .map((rule) =>
        rule.replaceAll('shop/cart', name).replaceAll('I5LIAMPLWKMBJ54B', hash).replaceAll('10.96.7.1', address),
      );
  const more = [
    neighbour('shop/cart-2', 'A'.repeat(16), '10.96.7.2'),
    neighbour('my-shop/cart', 'B'.repeat(16), '10.96.7.3'),
  ];
  const chains = [...rules.nat.chains, `KUBE-SVC-${'A'.repeat(16)}`, `KUBE-SVC-${'B'.repeat(16)}`];
  return { filter: rules.filter, nat: { chains, rules: [...rules.nat.rules, ...more.flat()] } };
}

const linked = (layout: Layout, rules: ResolvedRules): FamilyProgram =>
  layout === 'flat'
    ? linkFlat(rules, 'ipv4').program
    : settledProgram(linkTree(sectionsOf(rules), { family: 'ipv4' }).program);

test.each(layouts)(
  'layout %s: the comment of every rule that jumps to a chain of a Service begins with its key',
  (layout) => {
    const { nat } = linked(layout, cart());
    const dispatchRules = [...nat.chains].flatMap(([name, rules]) =>
      isOwnChain(name) ? [] : rules.filter((rule) => isOwnChain(rule.slice(rule.lastIndexOf(' ') + 1))),
    );
    expect(dispatchRules).toHaveLength(4);
    expect(dispatchRules.map(serviceKeyOf)).toEqual(dispatchRules.map(() => 'shop/cart:http'));
  },
);

test.each(layouts)('layout %s: a part has all chains of its Service and none of another', (layout) => {
  const { nat } = linked(layout, cart());
  const part = partOfService(nat, 'shop/cart');
  expect([...part.chains.keys()].toSorted()).toEqual([...nat.chains.keys()].filter(isOwnChain).toSorted());
  for (const [name, rules] of part.chains) expect(rules).toEqual(nat.chains.get(name));
  expect(partOfService(nat, 'shop/none')).toEqual({ dispatchRules: [], chains: new Map() });
});

test.each(layouts)('layout %s: a part has the rules that reject or drop packets', (layout) => {
  const { filter, nat } = linked(layout, withoutEndpoints);
  expect(partOfService(filter, 'shop/cart').dispatchRules).toHaveLength(4);
  expect(printPart('nat', partOfService(nat, 'shop/cart'))).toBe('');
});

test.each([
  ['as kube-proxy writes it', '-A X -m comment --comment "shop/web:http cluster IP" -j Y', 'shop/web:http'],
  ['in one word', '-A X -m comment --comment shop/web:http -m tcp -p tcp --dport 30080 -j Y', 'shop/web:http'],
  ['of a port without a name', '-A X -m comment --comment "shop/web has no endpoints" -j REJECT', 'shop/web'],
  ['as iptables-save prints one word', '-A X -m comment --comment "shop/web:http" -j Y', 'shop/web:http'],
  ['of a network', '-A X -m comment --comment "10.0.0.0/8 is ours" -j Y', undefined],
  ['of all Services', '-A X -m comment --comment "kubernetes service portals" -j Y', undefined],
  ['that is missing', '-A X -j Y', undefined],
])('the key in a comment %s', (_form, rule, key) => {
  expect(serviceKeyOf(rule)).toBe(key);
});

test('Services with similar names are distinguished', () => {
  const { nat } = linked('flat', crowded(clusterIPs()));
  for (const service of ['shop/cart', 'shop/cart-2', 'my-shop/cart'])
    expect(partOfService(nat, service).dispatchRules.map(serviceKeyOf)).toEqual([`${service}:http`]);
});

/** The cart without session affinity and external frontends. */
function clusterIPs(): ResolvedRules {
  return cart({
    nat: (text) =>
      text
        .replaceAll(/^.*(?:KUBE-EXT-|KUBE-FW-|KUBE-SVL-|-m recent).*\n/gm, '')
        .replaceAll(/^-A KUBE-SVC-\S+ .*KUBE-SEP.*\n/gm, ''),
    filter: (text) => text.replace(/^.*not accepted by.*\n/m, ''),
  });
}
