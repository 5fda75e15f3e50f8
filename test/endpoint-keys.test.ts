import fc from 'fast-check';
import { expect, test } from 'vitest';
import { compareText } from '@sluice/netfilter';
import { reaches, runs } from '@sluice/testing';
import { admit, AdmitMemory, isRefusal } from '../packages/applier/src/apply/admission/admit.ts';
import type { ChainLayout } from '../packages/applier/src/apply/admission/linking.ts';
import type { Service } from '../packages/renderer/src/render/model/model.ts';
import type { NodeState } from '../packages/applier/src/ports/node-state.ts';
import { classify } from '../packages/applier/src/apply/endpoints/change-kind.ts';
import { isMore } from '../packages/applier/src/apply/reconcile/gate.ts';
import { assemble } from '../packages/renderer/src/render/assemble.ts';
import {
  configWith,
  endpoint,
  inFamily,
  node,
  portWith,
  profileWith,
  serviceOf,
} from '../packages/renderer/src/render/compile/sample.fixture.ts';
import { sampleFacts as facts } from '../packages/applier/src/testing/node-facts.fixture.ts';

/** Changes that need no probation, and that keys for endpoints may sign, on rules that `sluice render` writes: only endpoints. */

type BundleTexts = ReadonlyMap<string, string>;

/** A layout of mode iptables, or mode nftables, which has none. */
type NodeProgram = ChainLayout | 'nftables';

const nftables = { mode: 'nftables', nftables: { masqueradeAll: false } } as const;
const profileOf = (program: NodeProgram) =>
  profileWith({ nodePortAddresses: ['0.0.0.0/0', '::/0'], ...(program === 'nftables' ? nftables : {}) });

interface ServiceShape extends Pick<Service, 'scheduler' | 'weights'> {
  readonly affinity: boolean;
  readonly local: boolean;
}

/** Two Services, one of them with these pods, every other one on `node-0`. */
function rendered(
  pods: readonly number[],
  { affinity, local, ...choice }: ServiceShape,
  program: NodeProgram,
): BundleTexts {
  const placed = (text: (pod: number) => string) =>
    pods
      .map((pod) => endpoint(text(pod), { nodeName: `node-${pod % 2}` }))
      .toSorted((a, b) => compareText(a.text, b.text));
  const ipv4 = inFamily({ endpoints: placed((pod) => `10.244.${pod % 2}.${pod}:80`), externalIPs: ['192.0.2.1'] });
  const ipv6 = inFamily({ clusterIP: 'fd00:96::1', endpoints: placed((pod) => `[fd00:10:244::${pod}]:80`) });
  const cart = portWith(
    {},
    {
      families: { ipv4, ipv6 },
      nodePort: 30_080,
      ...(affinity ? { affinitySeconds: 10_800 } : {}),
      ...(local ? { externalTrafficPolicy: 'Local' } : {}),
    },
  );
  const web = portWith({ clusterIP: '10.96.7.2', endpoints: [endpoint('10.244.9.9:80')] }, { key: 'shop/web:http' });
  const services = [
    { ...serviceOf([cart]), ...choice },
    { ...serviceOf([web]), name: 'web' },
  ];
  const model = { nodes: [node('node-0', { labels: new Map([['big', 'true']]) }), node('node-1')], services };
  return assemble(model, configWith({ profiles: [profileOf(program)] }), true).files;
}

function admitted(files: BundleTexts, program: NodeProgram): NodeState | undefined {
  const layout = program === 'nftables' ? 'tree' : program;
  const bundle = admit(files, { node: 'node-0', allowPartial: false, layout }, facts, new AdmitMemory());
  return isRefusal(bundle) ? undefined : bundle.state;
}

/** Every chain of a node with its rules, or every frontend with its lines, as one text. */
const textOf = ({ families, nft }: NodeState): string => {
  const tables = Object.values(families).flatMap(({ filter, nat }) => [filter.chains, nat.chains]);
  const maps = nft ? [...tables, nft.frontends, new Map([['', nft.settings]])] : tables;
  return maps.map((map) => JSON.stringify([...map].toSorted(([a], [b]) => compareText(a, b)))).join();
};

/** A line for the external frontend. */
function adding(set: string, rest: string): string {
  return `add element inet sluice ${set} { 192.0.2.1 . tcp . 80${rest} }\n`;
}

/** A line of a rule file. */
interface LinePlace {
  readonly path: string;
  readonly at: number;
}

const placesOf = (files: BundleTexts): readonly LinePlace[] =>
  [...files]
    .filter(([path]) => /\.(?:ip6?tables|nft)$/.test(path))
    .flatMap(([path, text]) =>
      text.split('\n').flatMap((line, at) => (/^(?:@\S+ )?(?:-A|add element) /.test(line) ? [{ path, at }] : [])),
    );

/** A change to a line; `pick` chooses one of its words. */
type LineMutation = (lines: string[], at: number, pick: number) => void;

const mutations: Readonly<Record<string, LineMutation>> = {
  'left out': (lines, at) => void lines.splice(at, 1),
  twice: (lines, at) => void lines.splice(at, 0, lines[at] ?? ''),
  'after the next one': (lines, at) => void lines.splice(at, 2, lines[at + 1] ?? '', lines[at] ?? ''),
  'after all others': (lines, at) => void lines.splice(lines.lastIndexOf('COMMIT') - 1, 0, ...lines.splice(at, 1)),
  'without a word': (lines, at, pick) => changeWord(lines, at, pick, () => ''),
  'with another word': (lines, at, pick) => changeWord(lines, at, pick, (word) => otherWord(word, lines, pick)),
  'for all of a network': (lines, at) =>
    void (lines[at] = (lines[at] ?? '').replace(/ -s [^ /]+(?= |$)/, ' -s 10.0.0.0/8')),
  'with another chance': (lines, at, pick) =>
    void (lines[at] = (lines[at] ?? '').replace(/(?<=--probability )\S+/, `0.${pick % 10}000000000`)),
};

function changeWord(lines: string[], at: number, pick: number, change: (word: string) => string): void {
  const words = (lines[at] ?? '').split(' ');
  const place = pick % words.length;
  words[place] = change(words[place] ?? '');
  lines[at] = words.filter((word) => word !== '').join(' ');
}

function otherWord(word: string, lines: readonly string[], pick: number): string {
  const chains = lines.flatMap((line) => / (KUBE-(?:SEP|SVC|SVL|EXT|MARK)-\S+)$/.exec(line)?.[1] ?? []);
  if (word.startsWith('KUBE-')) return chains[pick % chains.length] ?? word;
  if (/^\d+$/.test(word)) return String(Number(word) + 1);
  return word.replace(/\d(?=\D*$)/, (digit) => String((Number(digit) + 1) % 10));
}

const lineAt = (files: BundleTexts, { path, at }: LinePlace): string => (files.get(path) ?? '').split('\n')[at] ?? '';

/** The files with one rule changed. */
function mutated(files: BundleTexts, { path, at }: LinePlace, mutate: LineMutation, pick: number): BundleTexts {
  const lines = (files.get(path) ?? '').split('\n');
  mutate(lines, at, pick);
  return new Map([...files, [path, lines.join('\n')]]);
}

const few = [1, 2, 3, 4];
const many = Array.from({ length: 40 }, (_one, at) => at + 1);
const changes: Readonly<Record<string, readonly [readonly number[], readonly number[]]>> = {
  'one more': [few, [...few, 5]],
  'one replaced': [few, [1, 2, 3, 5]],
  'one of two left': [[1, 2], [2]],
  'one of many replaced': [many, [...many.slice(1), 99]],
  'so many that they come in groups': [many.slice(0, 32), [...many.slice(0, 32), 99]],
};
const layouts = ['tree', 'flat'] as const;
const someShape = fc.record({ affinity: fc.boolean(), local: fc.boolean() });

interface UpdateCase {
  readonly change: string;
  readonly shape: ServiceShape;
  readonly how: string;
  readonly place: number;
  readonly pick: number;
}

/** An endpoint update as it is rendered, and the state before it. */
interface Update {
  readonly from: NodeState;
  readonly files: BundleTexts;
  readonly desired: NodeState;
}

function updateOf(change: string, shape: ServiceShape, layout: NodeProgram): Update {
  const [had, has] = changes[change] ?? [[], []];
  const files = rendered(has, shape, layout);
  const [from, desired] = [admitted(rendered(had, shape, layout), layout), admitted(files, layout)];
  if (!from || !desired) throw new Error('a rendered bundle was not admitted');
  return { from, files, desired };
}

/** The rules of `node-0` in a file: those of every node and its own. */
const rulesHere = (files: BundleTexts, path: string): readonly string[] =>
  (files.get(path) ?? '').split('\n').filter((line) => !/^@node=(?!node-0 )/.test(line));

/** The files before a mutation and after it. */
interface Mutated {
  readonly how: string;
  readonly path: string;
  readonly files: BundleTexts;
  readonly changed: BundleTexts;
}

/**
 * Whether the changed rules are an endpoint update, too: one endpoint less is chosen, and each other one as likely as before; or
 * one is replaced; or a new endpoint's affinity is checked sooner or later, which no client can have yet.
 */
function isUpdateToo({ how, path, files, changed }: Mutated): boolean {
  const [had, has] = [rulesHere(files, path), rulesHere(changed, path)];
  const at = had.findIndex((line, place) => line !== has[place]);
  const [before, line = '', after] = [had[at - 1], had[at], had[at + 1]];
  const chain = (text = ''): string | undefined => /-A (\S+) .* -j KUBE-SEP-/.exec(text)?.[1];
  // It ignores a rule that another node has now.
  if (has.length === had.length - 1) return chain(line) !== undefined && chain(line) !== chain(before);
  if (isReplaced(line, has[at] ?? '')) return has.filter((one) => isSameChoice(one, has[at] ?? '')).length === 1;
  const isNew = [line, after].some((text) => text?.includes('.99:80') || text?.includes(':99]:80'));
  return how === 'after the next one' && isNew && [line, after].every((text) => text?.includes(' --rcheck '));
}

/** Whether two rules of one file, and so of one Service, differ only in their endpoint. */
function isReplaced(rule: string, other: string): boolean {
  const shared = (text: string): string => text.replace(/ -j KUBE-SEP-\S+$/, ' -j KUBE-SEP-');
  return / -j KUBE-SEP-/.test(rule) && rule !== other && shared(rule) === shared(other);
}

/** Whether two rules choose the same endpoint in the same chain. */
function isSameChoice(rule: string, other: string): boolean {
  const [ends, others] = [rule, other].map((text) => /-A (\S+) .*-j (KUBE-SEP-\S+)$/.exec(text)?.slice(1).join(' '));
  return ends !== undefined && ends === others;
}

test.each(layouts)('accepts an endpoint update, and no other change to any rule with it, in layout %s', (layout) => {
  const known = new Map<string, Update>();
  const met = new Map<string, number>();
  const someCase = fc.record({
    change: fc.constantFrom(...Object.keys(changes)),
    shape: someShape,
    how: fc.constantFrom(...Object.keys(mutations)),
    place: fc.nat(),
    pick: fc.nat(),
  });
  const holds = ({ change, shape, how, place, pick }: UpdateCase): void => {
    const key = `${change} ${JSON.stringify(shape)}`;
    const update = known.get(key) ?? updateOf(change, shape, layout);
    known.set(key, update);
    const { from, files, desired } = update;
    expect(isMore(classify(from, desired)), `${key}: as rendered`).toBe(false);
    const places = placesOf(files);
    const where = places[place % places.length] as LinePlace;
    const changed = mutated(files, where, mutations[how] as LineMutation, pick);
    const bad = admitted(changed, layout);
    if (!bad || textOf(bad) === textOf(desired) || isUpdateToo({ how, path: where.path, files, changed })) return;
    met.set(how, (met.get(how) ?? 0) + 1);
    expect(isMore(classify(from, bad)), `${key}: ${how}, ${where.path} ${where.at}: ${lineAt(files, where)}`).toBe(
      true,
    );
  };
  fc.assert(fc.property(someCase, holds), runs(1500));
  // Tier quick draws too few cases to meet every kind.
  if (!reaches('test')) return;
  expect([...met.keys()].toSorted(compareText), 'each kind is met').toEqual(
    Object.keys(mutations).toSorted(compareText),
  );
});

/** The first endpoint of this node with policy Local, number 2; the Service has more on other nodes. */
test.each(
  layouts.flatMap((layout) =>
    (
      [
        ['as rendered', (text: string) => text, 'endpoints'],
        [
          'without the affinity check',
          (text: string) => text.replaceAll(/^.*-A KUBE-SVL-.* --rcheck .*\n/gm, ''),
          'release',
        ],
        [
          'without recording clients',
          (text: string) => text.replace(/ -m recent --name \S+ --set(?=.*[.:]2\]?:80)/, ''),
          'release',
        ],
        [
          'without the hairpin rule',
          (text: string) => text.replace(/^.* -s \S+[.:]2 -j KUBE-MARK-MASQ\n/m, ''),
          'release',
        ],
      ] as const
    ).map(([title, change, changeKind]) => ({ layout, title, change, changeKind })),
  ),
)('a first endpoint of the node, $title, in layout $layout: $changeKind', ({ layout, change, changeKind }) => {
  const shape = { affinity: true, local: true };
  const files = rendered([1, 2, 3], shape, layout);
  const bad = new Map([...files].map(([path, text]) => [path, path.includes('/cart.') ? change(text) : text]));
  const [from, desired] = [admitted(rendered([1, 3], shape, layout), layout), admitted(bad, layout)];
  if (!from || !desired) throw new Error('a rendered bundle was not admitted');
  expect(classify(from, desired).changeKind).toBe(changeKind);
});

/** Lines of mode nftables with a change, beside the fourth endpoint, which is on this node. */
test.each<readonly [string, string | RegExp, string, 'update' | 'release' | 'refused']>([
  ['another endpoint in all lists', / 10\.244\.0\.4 \. 80/g, ' 10.244.0.9 . 80', 'update'],
  ['another endpoint in one list', ' 10.244.0.4 . 80', ' 10.244.0.9 . 80', 'update'],
  ['a local endpoint that the list lacks', /(localSlot\} : )10\.244\.0\.4 /, '${1}10.244.0.9 ', 'release'],
  ['an endpoint at another port', / 10\.244\.0\.4 \. 80/g, ' 10.244.0.4 . 81', 'release'],
  ['an endpoint of another frontend', '10.96.7.1 . 80 . ${slot}', '10.96.7.3 . 80 . ${slot}', 'refused'],
  ['another time of affinity', /t10800/g, 't600', 'release'],
  ['another policy', /^.*(?:(?:near|out)4 |localSlot).*\n/gm, '', 'release'],
  ['no frontend', /^.*(?:svc4|tcp4|near4|out4|none4) .*192\.0\.2\.1 .*\n/gm, '', 'release'],
  ['no ClusterIP', /^.*cluster4 .*\n/m, '', 'release'],
  ['source ranges', /^(?=.*near4 )/m, `${adding('fw4', '')}${adding('allow4', ' . 10.0.0.0/8')}`, 'release'],
  ['a health-check node port', /^(?=.*near4 )/m, 'add element inet sluice health4 { 32090 }\n', 'release'],
  ['a refusal that is never met', /^(?=.*near4 )/m, adding('none4', ' : goto refuse'), 'update'],
])('mode nftables: %s in an endpoint update', (_title, pattern, replacement, expected) => {
  const shape = { affinity: true, local: true };
  const files = rendered(few, shape, 'nftables');
  const [path, text] = [...files].find(([one]) => one.includes('/cart.')) as [string, string];
  const changed = text.replace(pattern, replacement.replace('${1}', '$1'));
  expect(changed).not.toBe(text);
  const [from, desired] = [rendered([1, 2, 3], shape, 'nftables'), new Map([...files, [path, changed]])];
  const [before, after] = [admitted(from, 'nftables'), admitted(desired, 'nftables')];
  expect(before && admitted(files, 'nftables')).toBeDefined();
  const kind = before && after && (isMore(classify(before, after)) ? 'release' : 'update');
  expect(kind ?? 'refused').toBe(expected);
});

const chosen = {
  affinity: false,
  local: true,
  scheduler: 'maglev',
  weights: [{ label: 'big', value: 'true', weight: 3 }],
} as const;

/** The fourth endpoint is on this node, and has weight 3, as the second one, which was there before. */
test.each<readonly [string, string | RegExp, string, 'update' | 'release' | 'refused']>([
  ['nothing else', /^#.*\n/gm, '', 'update'],
  ['another scheduler', /goto (p?)m(l?)1009/g, 'goto $1m${2}251', 'release'],
  ['no scheduler', /goto (p?)m1009/g, 'goto $1n${count}', 'refused'],
  ['another scheduler of one list', /(out4 .*)goto ml1009/, '$1goto ml251', 'refused'],
  ['another weight of the new endpoint', /lot:3\}( : 10\.244\.0\.4 )/g, 'lot:4}$1', 'release'],
  ['a weight of the new endpoint that others have', /lot:3\}( : 10\.244\.0\.4 )/g, 'lot}$1', 'update'],
  ['another weight of an old endpoint', /lot\}( : 10\.244\.1\.1 )/g, 'lot:3}$1', 'release'],
  ['weights of the new endpoint that differ', /localSlot:3\}( : 10\.244\.0\.4 )/g, 'localSlot}$1', 'refused'],
  ['a weight that none may have', /lot:3\}( : 10\.244\.0\.4 )/g, 'lot:65536}$1', 'refused'],
])('mode nftables with a scheduler and weights: %s in an endpoint update', (_title, pattern, replacement, expected) => {
  const files = rendered(few, chosen, 'nftables');
  const [path, text] = [...files].find(([one]) => one.includes('/cart.')) as [string, string];
  const changed = text.replace(pattern, replacement.replaceAll('${2}', '$2'));
  expect(changed).not.toBe(text);
  const before = admitted(rendered([1, 2, 3], chosen, 'nftables'), 'nftables');
  const after = admitted(new Map([...files, [path, changed]]), 'nftables');
  expect(before && admitted(files, 'nftables')).toBeDefined();
  const kind = before && after && (isMore(classify(before, after)) ? 'release' : 'update');
  expect(kind ?? 'refused').toBe(expected);
});
