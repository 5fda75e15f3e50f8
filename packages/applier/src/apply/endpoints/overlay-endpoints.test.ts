import { describe, expect, test } from 'vitest';
import type { FamilyProgram } from '@sluice/netfilter';
import { admit, AdmitMemory, isRefusal } from '../admission/admit.ts';
import type { ChainLayout } from '../admission/linking.ts';
import { familyNames, type NodeState } from '../../ports/node-state.ts';
import { hash16, sampleBundle, sampleNode } from '../../testing/bundle.fixture.ts';
import { overlayEndpoints } from './overlay-endpoints.ts';
import { classify, changeKindOf } from './change-kind.ts';
import { sampleFacts } from '../../testing/node-facts.fixture.ts';

const facts = { ...sampleFacts, addresses: { ipv4: [], ipv6: [] } };

type Services = Readonly<Record<string, readonly number[]>>;

/** The linked state of these Services. */
function linked(layout: ChainLayout, services: Services): NodeState {
  const options = { node: sampleNode, allowPartial: false, layout };
  const bundle = admit(sampleBundle({ services, families: ['ipv4', 'ipv6'] }), options, facts, new AdmitMemory());
  if (isRefusal(bundle)) throw new Error(bundle.problems[0]?.message);
  return bundle.state;
}

/** Every chain with its rules, independent of their order in the map. */
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
    const active = linked(layout, base);
    // Names identify content, so linking such a bundle gives the same names.
    expect(spell(overlayEndpoints(active, linked(layout, offered)))).toEqual(spell(linked(layout, expected)));
  });

  test('returns the same object if there is nothing to take', () => {
    const active = linked(layout, base);
    const other = linked(layout, { ...base, 'shop/new': [5] });
    // In layout flat a Service moves to another address when one comes before it; here it comes last.
    expect(overlayEndpoints(active, other)).toBe(active);
    expect(overlayEndpoints(active, linked(layout, base))).toBe(active);
  });

  test('skips Services whose ports or addresses the other state changes', () => {
    const active = linked(layout, base);
    const files = sampleBundle({ services: { ...base, 'shop/cart': [8] }, families: ['ipv4', 'ipv6'] });
    const moved = new Map([...files].map(([path, text]) => [path, text.replaceAll(':8080', ':9443')]));
    const bundle = admit(moved, { node: sampleNode, allowPartial: false, layout }, facts, new AdmitMemory());
    if (isRefusal(bundle)) throw new Error(bundle.problems[0]?.message);
    expect(overlayEndpoints(active, bundle.state)).toBe(active);
    expect(changeKindOf(active, bundle.state)).toBe('release');
  });
});

describe('layout flat: a chain of an endpoint with the same name and other rules', () => {
  const cart = `KUBE-SEP-${hash16('shop/cart9')}`;
  const web = `KUBE-SVC-${hash16('shop/web')}`;
  /** These Services with another endpoint of cart. @param isShared web has it as its last one, too */
  const tampered = (services: Services, isShared = false): NodeState => {
    const state = linked('flat', services);
    const nat = (program: FamilyProgram): FamilyProgram['nat'] => {
      const chains = new Map(program.nat.chains);
      const elsewhere = (rule: string): string =>
        rule.replace(/--to-destination .*/, '--to-destination 203.0.113.9:8080');
      chains.set(cart, (chains.get(cart) ?? []).map(elsewhere));
      const choices = chains.get(web) ?? [];
      if (isShared) chains.set(web, [...choices.slice(0, -1), `-A ${web} -j ${cart}`]);
      return { ...program.nat, chains };
    };
    const families = Object.entries(state.families).map(([name, own]) => [name, { ...own, nat: nat(own) }] as const);
    return { ...state, families: Object.fromEntries(families) };
  };
  const more = { ...base, 'shop/web': [1, 2, 3, 4, 5] };

  test('stays while another Service is updated, and makes the whole change a release', () => {
    const active = linked('flat', base);
    expect(spell(overlayEndpoints(active, tampered(more)))).toEqual(spell(linked('flat', more)));
    expect(classify(active, tampered(more)).changeKind).toBe('release');
  });

  test.each<[string, Services]>([
    ['a first endpoint', { ...more, 'shop/off': [3] }],
    ['a last endpoint', { ...base, 'shop/one': [] }],
  ])('is a release beside %s', (_title, services) => {
    const active = linked('flat', { ...base, 'shop/one': [6] });
    const desired = { ...base, 'shop/one': [6], ...services };
    expect(classify(active, linked('flat', desired)).changeKind).toBe('endpoints');
    expect(classify(active, tampered(desired)).changeKind).toBe('release');
  });

  test('is not taken through another Service that newly leads to it', () => {
    const active = linked('flat', base);
    expect(overlayEndpoints(active, tampered(base, true))).toBe(active);
    expect(classify(active, tampered(base, true)).changeKind).toBe('release');
  });
});

test.each(['flat', 'tree'] as const)('takes no family that the state lacks, in layout %s', (layout) => {
  const { families, ...rest } = linked(layout, base);
  const only4: NodeState = { ...rest, families: { ipv4: families.ipv4 as FamilyProgram } };
  const taken = overlayEndpoints(only4, linked(layout, { ...base, 'shop/web': [1, 2, 3] }));
  expect(Object.keys(taken.families)).toEqual(['ipv4']);
  expect(changeKindOf(only4, taken)).toBe('endpoints');
});

test('takes nothing between layouts', () => {
  const active = linked('tree', base);
  expect(overlayEndpoints(active, linked('flat', { ...base, 'shop/cart': [8] }))).toBe(active);
});
