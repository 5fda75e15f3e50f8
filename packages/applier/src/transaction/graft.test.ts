import { describe, expect, test } from 'vitest';
import { admit, AdmitMemory, isRefusal } from '../rollout/admit.ts';
import type { Layout } from '../rollout/linking.ts';
import type { NodeFacts } from '../rollout/ports.ts';
import { familyNames, type NodeState } from '../rollout/state.ts';
import { sampleBundle, sampleNode } from '../testing/bundle.fixture.ts';
import { graft } from './graft.ts';
import { laneOf } from './lane.ts';

const facts: NodeFacts = {
  tools: { ipv4: '1.8.9', ipv6: '1.8.9' },
  addresses: { ipv4: [], ipv6: [] },
  ipvsToolsMissing: [],
  kernelRelease: '6.1.0',
  kubeProxies: () => [],
  sysctlTakes: () => true,
};

type Services = Readonly<Record<string, readonly number[]>>;

/** What is loaded for these Services. */
function linked(layout: Layout, services: Services): NodeState {
  const options = { node: sampleNode, allowPartial: false, layout };
  const bundle = admit(sampleBundle({ services, families: ['ipv4', 'ipv6'] }), options, facts, new AdmitMemory());
  if (isRefusal(bundle)) throw new Error(bundle.problems[0]?.message);
  return bundle.state;
}

/** Every chain with its rules, whatever the order in which they were put together. */
const spell = ({ families }: NodeState): unknown =>
  familyNames.map((family) =>
    (['filter', 'nat'] as const).map((table) => Object.fromEntries(families[family]?.[table].chains ?? [])),
  );

const many = Array.from({ length: 40 }, (_, n) => n + 20);
const base: Services = { 'shop/web': [1, 2, 3, 4], 'shop/cart': [9], 'shop/off': [], 'shop/wide': many };

describe.each(['flat', 'tree'] as const)('layout %s', (layout) => {
  test.each<[string, Services, Services]>([
    ['an endpoint more', { ...base, 'shop/web': [1, 2, 3, 4, 5] }, { ...base, 'shop/web': [1, 2, 3, 4, 5] }],
    ['the only endpoint replaced', { ...base, 'shop/cart': [8] }, { ...base, 'shop/cart': [8] }],
    ['one of many, in groups', { ...base, 'shop/wide': many.slice(1) }, { ...base, 'shop/wide': many.slice(1) }],
    ['beside a Service that comes', { ...base, 'shop/cart': [8], 'shop/new': [5] }, { ...base, 'shop/cart': [8] }],
    [
      'several beside a Service that comes',
      { ...base, 'shop/web': [1, 2, 3], 'shop/wide': [...many, 7], 'shop/new': [5] },
      { ...base, 'shop/web': [1, 2, 3], 'shop/wide': [...many, 7] },
    ],
    [
      'too many at once of one Service',
      { ...base, 'shop/cart': [8], 'shop/web': [1, 6, 7, 8] },
      { ...base, 'shop/cart': [8] },
    ],
    [
      'the last one of a Service',
      { ...base, 'shop/cart': [], 'shop/web': [1, 2, 3] },
      { ...base, 'shop/web': [1, 2, 3] },
    ],
    ['the first one of a Service', { ...base, 'shop/off': [3], 'shop/cart': [8] }, { ...base, 'shop/cart': [8] }],
  ])('a state takes of another: %s', (_title, offered, expected) => {
    const standing = linked(layout, base);
    // Names say what is in them, so this is what linking gives for such a bundle, down to the names.
    expect(spell(graft(standing, linked(layout, offered)))).toEqual(spell(linked(layout, expected)));
  });

  test('a state that has nothing to take is the same value', () => {
    const standing = linked(layout, base);
    const other = linked(layout, { ...base, 'shop/new': [5] });
    // In layout flat a Service moves to another address when one comes before it; here it comes last.
    expect(graft(standing, other)).toBe(standing);
    expect(graft(standing, linked(layout, base))).toBe(standing);
  });

  test('what the other state does to ports and addresses of a Service keeps its endpoints out', () => {
    const standing = linked(layout, base);
    const files = sampleBundle({ services: { ...base, 'shop/cart': [8] }, families: ['ipv4', 'ipv6'] });
    const moved = new Map([...files].map(([path, text]) => [path, text.replaceAll(':8080', ':9443')]));
    const bundle = admit(moved, { node: sampleNode, allowPartial: false, layout }, facts, new AdmitMemory());
    if (isRefusal(bundle)) throw new Error(bundle.problems[0]?.message);
    expect(graft(standing, bundle.state)).toBe(standing);
    expect(laneOf(standing, bundle.state)).toBe('release');
  });
});

test('between layouts nothing is taken', () => {
  const standing = linked('tree', base);
  expect(graft(standing, linked('flat', { ...base, 'shop/cart': [8] }))).toBe(standing);
});
