import { expect, test } from 'vitest';
import { traceLive } from '../trace/trace-live.ts';
import { bundleOf } from '../example.fixture.ts';
import { node, observe, type SavedFiles, savedFiles } from './observed.fixture.ts';
import { parityOf } from './parity.ts';

/** What is cut or absent in a ticket is never taken for what a node lacks. */

const cuts: Readonly<Record<string, (text: string) => string | undefined>> = {
  absent: () => undefined,
  empty: () => '',
  'cut within a line': (text) => text.slice(0, Math.floor(text.length / 2)).replace(/\n?$/, ''),
  'cut at the end of a line': (text) => text.slice(0, text.lastIndexOf('\n', Math.floor(text.length / 2)) + 1),
};

/** The files without which the rules of an example are not known, by example. */
const needed: readonly (readonly [string, readonly string[]])[] = [
  ['02-node-port', ['iptables-nft-save.txt', 'ip-addr.txt']],
  ['10-ipvs', ['iptables-nft-save.txt', 'ipset.txt', 'ipvsadm.txt', 'ip-addr.txt']],
];

/** One family may have no rules: an empty file is doubtful only where no other one has rules of Services. */
const isRulesOfOneFamily = (file: string, how: string): boolean => file.startsWith('iptables') && how === 'empty';

const cases = needed.flatMap(([example, files]) =>
  files.flatMap((file) =>
    Object.keys(cuts).flatMap((how) => (isRulesOfOneFamily(file, how) ? [] : [[example, file, how] as const])),
  ),
);

/** With the addresses and routes of the example's node, as `ip route show table all` has them. */
function ticket(example: string): SavedFiles {
  const saved = savedFiles(bundleOf(example), node);
  const addresses =
    '2: eth0: <UP>\n    inet 192.0.2.11/24 scope global eth0\n    inet6 2001:db8:2::11/64 scope global\n';
  saved.set('ip-addr.txt', `${addresses}${saved.get('ip-addr.txt') ?? ''}`);
  const text = saved.get('ip-addr.txt') ?? '';
  const local = text.match(/(?<=inet6? )[0-9a-f.:]+/g) ?? [];
  saved.set('ip-route.txt', local.map((one) => `local ${one} dev eth0 table local\n`).join(''));
  return saved;
}

test.each(cases)('of example %s with %s %s nothing is certain', (example, file, how) => {
  const saved = ticket(example);
  const text = cuts[how]?.(saved.get(file) ?? '');
  if (text === undefined) saved.delete(file);
  else saved.set(file, text);
  const seen = observe(node, saved);
  const report = parityOf(bundleOf(example), seen, node);
  expect(report).toMatchObject({ result: 'incomplete', differences: [] });
  const to = { family: 'ipv4', destination: '10.96.0.10', protocol: 'tcp', port: 80 } as const;
  const traced = traceLive(seen, { ...to, from: '10.244.1.9' }, () => undefined);
  const isPassed =
    'ways' in traced && traced.missing.length === 0 && traced.ways.some(({ verdict }) => verdict === 'pass');
  expect(isPassed).toBe(false);
});

test.each(needed)('the whole ticket of example %s is equivalent', (example) => {
  expect(parityOf(bundleOf(example), observe(node, ticket(example)), node)).toMatchObject({ result: 'equivalent' });
});

test('where no file has rules of Services an empty one is not taken for a node without rules', () => {
  const saved = ticket('02-node-port');
  for (const name of saved.keys()) if (name.endsWith('-save.txt')) saved.set(name, '');
  const seen = observe(node, saved);
  expect(parityOf(bundleOf('02-node-port'), seen, node)).toMatchObject({ result: 'incomplete', differences: [] });
  expect(seen.missing.map(({ why }) => why)).toContain(
    'iptables-nft-save.txt: it is empty, and no other file has rules of Services: save it as root',
  );
});
