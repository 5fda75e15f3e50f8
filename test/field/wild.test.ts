// @module-tag test
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { bundleOf } from '../../packages/review/src/example.fixture.ts';
import { observe, savedFiles } from '../../packages/review/src/parity/observed.fixture.ts';
import { parityOf } from '../../packages/review/src/parity/parity.ts';
import { type Form, formsOf, named, observedWild, wildRules, type WildRules } from './wild.ts';
import { besideProxy } from './wild-node.ts';

/** Rules of distribution firewalls and network plugins: how many of their forms are read, and parity of a node that has them. */

/** Forms of which no rule set says what becomes of a packet: they depend on the time, on rates, on what packets did before, or on sockets. */
const undecidable: readonly (readonly [of: string, form: RegExp])[] = [
  ['rates', /^-m (?:limit|hashlimit|connlimit) |^limit$|^meter$|^ct count$|^quota name|^ct bytes$/],
  ['the time', /^-m time |^meta (?:hour|day)$/],
  ['lists and sets that packets fill or time empties', /^-m recent |^(?:add|update) @|^ip saddr @set$/],
  ['sockets of proxies', /^-j TPROXY |^tproxy |^socket |^synproxy |^queue /],
  ['sizes and headers of packets', /^-m length |^ip (?:length|ttl|dscp)$|^meta length$/],
  ['addresses of hardware', /^ether saddr/],
  ['zones of connection tracking', /^ct zone$/],
  ['IPsec', /^rt ipsec/],
  ['devices and bridges, beneath IP', /^(?:netdev|bridge): /],
];

const titlesOf = (forms: readonly Form[]): ReadonlyMap<string, string | undefined> =>
  new Map(
    [...forms.filter(({ unread }) => unread === undefined), ...forms.filter(({ unread }) => unread !== undefined)].map(
      ({ title, unread }) => [title, unread],
    ),
  );

const rows = wildRules.map((rules) => {
  const all = formsOf(rules);
  // Of one form some rules may be read and some not.
  const titles = titlesOf(all.flat());
  return {
    rules,
    count: all.length,
    followed: all.filter((one) => one.every(({ unread }) => unread === undefined)).length,
    titles,
  };
});

test.each(wildRules)('all rules of $name are read by the tools that the product has', (rules) => {
  const own = new Set(rules.files.keys());
  const missing = observedWild(rules).missing.filter(({ why }) => [...own].some((name) => why.startsWith(name)));
  expect(missing).toEqual([]);
  expect(formsOf(rules).length).toBeGreaterThan(0);
});

test('a form that is not followed depends on what no rule says', () => {
  const others = rows.flatMap(({ rules, titles }) =>
    [...titles].flatMap(([title, unread]) =>
      unread === undefined || undecidable.some(([, form]) => form.test(title))
        ? []
        : [`${rules.name}: ${title}: ${unread}`],
    ),
  );
  expect(others).toEqual([]);
});

test('tables beneath IP are named, and the others are read', () => {
  const seen = observedWild(wildRules.find(({ name }) => name === 'nftables-wiki')!);
  expect(seen.nftTables.map(({ name }) => name)).toEqual(['lab']);
  expect(seen.missing).toContainEqual({
    part: 'nft-tables',
    why: 'hooks of bridge filter, netdev ingress_filter are not followed',
  });
});

/** UPDATE_DOCS=1 rewrites the table. */
test('docs/parity.md counts the forms that are followed', () => {
  const page = join(import.meta.dirname, '..', '..', 'docs', 'parity.md');
  const text = readFileSync(page, 'utf8');
  const [start, end] = ['<!-- forms: written by the tests -->', '<!-- end of forms -->'];
  const wanted = `${text.slice(0, text.indexOf(start))}${start}\n\n${table()}\n${text.slice(text.indexOf(end))}`;
  if (process.env['UPDATE_DOCS'] === '1') writeFileSync(page, wanted);
  expect(readFileSync(page, 'utf8')).toBe(wanted);
});

function table(): string {
  const all = titlesOf(rows.flatMap(({ titles }) => [...titles].map(([title, unread]) => ({ title, unread }))));
  const isFollowed = (unread: string | undefined): boolean => unread === undefined;
  const counts = (list: Iterable<string | undefined>): string => {
    const reasons = [...list];
    return `${reasons.filter(isFollowed).length} of ${reasons.length}`;
  };
  const sum = (of: 'count' | 'followed'): number => rows.reduce((total, row) => total + row[of], 0);
  const lines = rows.map(({ rules, count, followed, titles }) => {
    const kinds = [...titles].flatMap(([title, unread]) =>
      isFollowed(unread) ? [] : (undecidable.find(([, form]) => form.test(title))?.[0] ?? title),
    );
    return `| ${rules.name} | ${followed} of ${count} | ${counts(titles.values())} | ${[...new Set(kinds)].join('; ')} |`;
  });
  return `| rule set | rules followed | forms followed | not followed, and named where it could decide |
|---|---|---|---|
${lines.join('\n')}
| **all ${rows.length}** | ${sum('followed')} of ${sum('count')} | ${counts(all.values())} | |
`;
}

const node = 'node-1';
const network: readonly (readonly [string, string])[] = [
  [
    'ip-addr.txt',
    `1: lo: <LOOPBACK,UP>
    inet 127.0.0.1/8 scope host lo
2: eth0: <UP>
    inet 192.0.2.11/24 scope global eth0
3: cni0: <UP>
    inet 10.244.1.1/24 scope global cni0
`,
  ],
  ['ip-route.txt', 'default via 192.0.2.1 dev eth0\n10.244.1.0/24 dev cni0 scope link\ndefault via fe80::1 dev eth0\n'],
];

function reportOf(rules: WildRules, isFirst: boolean) {
  const files = bundleOf('02-node-port');
  const saved = new Map([...besideProxy(savedFiles(files, node), rules, isFirst), ...network]);
  const report = parityOf(files, observe(node, saved), node);
  return report;
}

/** These insert their jumps before those of a proxy. */
const inserted: ReadonlySet<string> = new Set([
  'calico',
  'cilium',
  'kube-router',
  'eks',
  'antrea',
  'weave',
  'nodelocal-dns',
]);
const nodes = wildRules.flatMap((rules) =>
  [false, ...(inserted.has(rules.name) ? [true] : [])].map(
    (isFirst) => [rules.name, isFirst ? 'before' : 'behind', rules, isFirst] as const,
  ),
);

test.each(nodes)('rules of %s, %s those of kube-proxy, are no difference', (name, _order, rules, isFirst) => {
  const { result, differences, coverage } = reportOf(rules, isFirst);
  const gaps = coverage.notCovered.filter(({ matters }) => matters).map(({ what, why }) => `${what}: ${why}`);
  const reason = named[name];
  expect({ differences, others: gaps.filter((gap) => reason?.test(gap) !== true) }).toEqual({
    differences: [],
    others: [],
  });
  expect(result).toBe(reason ? 'incomplete' : 'equivalent');
});

test.each(['openshift-sdn', 'submariner'])('an ACCEPT of %s that comes first is named with its order', (name) => {
  const { result, differences } = reportOf(wildRules.find((one) => one.name === name)!, true);
  expect(result).toBe('different');
  expect(new Set(differences.map(({ cause, rule }) => `${cause}: ${/-j \w+$/.exec(rule ?? '')?.[0]}`))).toEqual(
    new Set(['foreign-rule: -j ACCEPT']),
  );
});
