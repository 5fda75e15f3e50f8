import { orProblems } from '../bundle/node.ts';
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

const cases = needed.flatMap(([example, files]) =>
  files.flatMap((file) => Object.keys(cuts).map((how) => [example, file, how] as const)),
);

/** With the routes of the example's node, as `ip route show table all` has them. */
function ticket(example: string): SavedFiles {
  const saved = savedFiles(bundleOf(example), node);
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
  const to = { family: 'ipv4', destination: '10.96.0.20', protocol: 'tcp', port: 80 } as const;
  const traced = orProblems(() => traceLive(seen, { ...to, from: '10.244.1.9' }, () => undefined));
  const isPassed =
    'ways' in traced && traced.missing.length === 0 && traced.ways.some(({ verdict }) => verdict === 'pass');
  expect(isPassed).toBe(false);
});

/** What is left of a file looks whole by itself, and no other file shows what it lacks. */
test.each<[string, string, string, (saved: SavedFiles) => void]>([
  [
    '10-ipvs',
    'addresses',
    'interfaces behind lo, and routes',
    (saved) => {
      saved.delete('ip-route.txt');
      saved.set('ip-addr.txt', '1: lo: <LOOPBACK,UP>\n    inet 127.0.0.1/8 scope host lo\n');
    },
  ],
  [
    '10-ipvs',
    'servers',
    'the real servers of the last virtual server',
    (saved) => {
      const text = saved.get('ipvsadm.txt') ?? '';
      saved.set('ipvsadm.txt', text.slice(0, text.indexOf('\n', text.lastIndexOf('\n-A ') + 1) + 1));
    },
  ],
  [
    '10-ipvs',
    'servers',
    'the virtual servers of a node port',
    (saved) => {
      saved.set('ipset.txt', `${saved.get('ipset.txt')}add KUBE-NODE-PORT-TCP 30099\n`);
    },
  ],
])('of example %s without %s: %s are not taken for absent', (example, part, _what, cut) => {
  const saved = ticket(example);
  cut(saved);
  const seen = observe(node, saved);
  expect(seen.missing.find((one) => one.part === part)?.why).toMatch(/: it may be truncated: it lacks /);
  expect(parityOf(bundleOf(example), seen, node)).toMatchObject({ result: 'incomplete', differences: [] });
});

test('a DNAT of a revision that the tool does not know is named, and no packet is traced past it', () => {
  const saved = ticket('02-node-port');
  const text = saved.get('iptables-nft-save.txt') ?? '';
  saved.set(
    'iptables-nft-save.txt',
    text.replaceAll(/-j DNAT --to-destination \S+/g, '-j DNAT [unsupported revision]'),
  );
  const seen = observe(node, saved);
  const report = parityOf(bundleOf('02-node-port'), seen, node);
  expect(report).toMatchObject({ result: 'incomplete', differences: [] });
  const whys = report.coverage.notCovered.filter(({ matters }) => matters);
  expect(whys.map(({ why }) => why)).toContain('target DNAT [unsupported revision] is not read');
  const to = { family: 'ipv4', destination: '10.96.0.20', protocol: 'tcp', port: 80 } as const;
  const traced = traceLive(seen, { ...to, from: '10.244.1.9' }, () => undefined);
  expect(traced.missing.length + traced.unread.length).not.toBe(0);
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
