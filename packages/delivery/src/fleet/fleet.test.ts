import { describe, expect, test } from 'vitest';
import { receiptOf, receiptWith, silent, target, waves } from './fleet.fixture.ts';
import { type Evidence, isHealthyFleet, judgeFleet } from './fleet.ts';
import { nextStep } from './next.ts';
import { promote } from './promote.ts';

type Words = readonly (readonly [string, Evidence])[];
const judge = (words: Words, open = 2) => judgeFleet(new Map(words), [], target(open));

test('a node without a receipt is served by what was observed, one with a receipt by what that says', () => {
  const words: Words = [silent('a'), silent('b'), receiptOf('c', 'confirmed')];
  const observed = new Map([
    ['a', ['ipvs']],
    ['c', ['iptables', 'nftables']],
  ]);
  const { rows, serving } = judgeFleet(new Map(words), [], target(2), observed);
  expect(rows.find(({ node }) => node === 'a')?.observed).toEqual(['ipvs']);
  expect(serving).toMatchObject({ 'observed: ipvs': 1 });
  expect(Object.keys(serving)).not.toContain('observed: iptables and nftables');
});

describe('a node', () => {
  test.each([
    ['runs the release after a confirmation', receiptOf('a', 'confirmed'), 'runs', null],
    [
      'runs the release with failing probes',
      receiptWith([{ name: 'web', healthy: false }]),
      'runs',
      'with failing probes: web',
    ],
    ['runs a release that did not change its rules', receiptOf('a', 'same'), 'runs', null],
    [
      'is rolled back with the reason',
      receiptOf('a', 'rolled-back', 'this', 'health failed: web'),
      'rolled-back',
      'health failed: web',
    ],
    [
      'runs the release without some Services, with the reason',
      receiptOf('a', 'partial', 'this', 'without shop/cart'),
      'partial',
      'without shop/cart',
    ],
    [
      'is behind with a part of an older release, also while its wave is closed',
      receiptOf('d', 'partial', 'older'),
      'behind',
      'its receipt is about release 41: partial',
    ],
    ['refused the release with the reason', receiptOf('a', 'refused', 'this', 'too old'), 'refused', 'too old'],
    [
      'refused an unidentified release, which counts as this one',
      receiptOf('a', 'refused', 'nothing', 'x'),
      'refused',
      'x',
    ],
    [
      'refused an endpoint update',
      receiptOf('a', 'refused', 'update', 'more than endpoints'),
      'refused',
      'other content of serial 42, such as an endpoint update: more than endpoints',
    ],
    [
      'rolled an endpoint update back',
      receiptOf('a', 'rolled-back', 'update', 'the kernel took none'),
      'rolled-back',
      'other content of serial 42, such as an endpoint update: the kernel took none',
    ],
    [
      'is behind with other content of the same serial',
      receiptOf('a', 'confirmed', 'update'),
      'behind',
      'its receipt is about another release with serial 42: confirmed',
    ],
    [
      'is behind after refusing a release of another cluster',
      receiptOf('a', 'refused', 'elsewhere'),
      'behind',
      'its receipt is about another release with serial 42: refused',
    ],
    ['is halted by any release', receiptOf('a', 'held', 'older', 'x'), 'held', 'x'],
    ['is on rules chosen by an operator', receiptOf('a', 'chosen', 'nothing', 'manually'), 'by-hand', 'manually'],
    [
      'is behind after rolling an older release back',
      receiptOf('a', 'rolled-back', 'older'),
      'behind',
      'its receipt is about release 41: rolled-back',
    ],
    [
      'is behind on an older release',
      receiptOf('a', 'confirmed', 'older'),
      'behind',
      'its receipt is about release 41: confirmed',
    ],
    ['waits on an older release while its wave is closed', receiptOf('d', 'confirmed', 'older'), 'waits', null],
    [
      'is behind after a failure, also while its wave is closed',
      receiptOf('d', 'rolled-back', 'older'),
      'behind',
      'its receipt is about release 41: rolled-back',
    ],
    [
      'is behind on a bundle that is not a release',
      receiptOf('a', 'confirmed', 'nothing'),
      'behind',
      'it runs a bundle that is not a release',
    ],
    ['is silent without a receipt', silent('a'), 'silent', 'no receipt'],
    [
      'is silent without a valid receipt',
      silent('a', 'number 9: its signature is missing'),
      'silent',
      'no valid receipt: number 9: its signature is missing',
    ],
  ] as const)('%s', (_title, word, state, why) => {
    const [node] = word;
    expect(judge([word]).rows.find((row) => row.node === node)).toMatchObject({ state, why });
  });
});

test('sorts by state and name; a fleet is healthy when all nodes run the release or wait', () => {
  const fleet = judge([
    receiptOf('b', 'same'),
    receiptOf('a', 'confirmed'),
    receiptOf('e', 'held'),
    receiptOf('d', 'same', 'older'),
  ]);
  expect(fleet.rows.map(({ node, state }) => `${node} ${state}`)).toEqual([
    'e held',
    'c silent',
    'd waits',
    'a runs',
    'b runs',
  ]);
  expect(isHealthyFleet(fleet)).toBe(false);
  const well = judge([
    ...['a', 'b', 'c'].map((node) => receiptOf(node, 'same')),
    receiptOf('d', 'same', 'older'),
    receiptOf('e', 'confirmed'),
  ]);
  expect(isHealthyFleet(well)).toBe(true);
});

test('compares with the newest release in the receipts by default; a fleet without receipts is not healthy', () => {
  const fleet = judgeFleet(new Map([receiptOf('a', 'confirmed'), receiptOf('b', 'same', 'older')]), ['x']);
  expect(fleet).toMatchObject({ serial: 42, foreignNodes: ['x'], counts: { runs: 1, behind: 1 } });
  expect(isHealthyFleet(judgeFleet(new Map(), []))).toBe(false);
});

test('prefers a running release over a refused update of the same serial as the default', () => {
  const fleet = judgeFleet(new Map([receiptOf('a', 'refused', 'update', 'x'), receiptOf('b', 'confirmed')]), []);
  expect(fleet.rows.map(({ node, state }) => `${node} ${state}`)).toEqual(['a refused', 'b runs']);
});

describe('the next wave', () => {
  const yes = (...nodes: readonly string[]): Words => nodes.map((node) => receiptOf(node, 'confirmed'));
  const answer = (words: Words, open: number, quorum = 100, acceptFailing = false): string => {
    const decision = promote(waves, open, judge(words, open), { quorum, acceptFailing });
    if (decision.kind === 'open') return `opens ${decision.open} ${decision.wave.name}`;
    return decision.kind === 'all-open' && decision.problems.length === 0
      ? 'all open'
      : decision.problems.map(({ message }) => message.slice(message.indexOf(': ') + 2)).join('; ');
  };
  test.each([
    ['opens the first without receipts', [], 0, 100, 'opens 1 canary'],
    ['opens the second when the first is healthy', yes('a'), 1, 100, 'opens 2 rack'],
    ['does not open while a node is silent', yes('a', 'b'), 2, 100, 'c is silent: no receipt'],
    ['ignores success in a closed wave', yes('d', 'e'), 1, 100, 'a is silent: no receipt'],
    ['opens with a quorum and one node missing', yes('a', 'b'), 2, 66, 'opens 3 others'],
    ['does not open below the quorum', yes('a'), 2, 66, 'b is silent: no receipt; c is silent: no receipt'],
    [
      'does not open with a quorum and one refused endpoint update',
      [...yes('b', 'c'), receiptOf('a', 'refused', 'update', 'x')],
      2,
      1,
      'a is refusing: other content of serial 42, such as an endpoint update: x',
    ],
    [
      'does not open with a quorum and one failure',
      [...yes('a', 'b'), receiptOf('c', 'rolled-back', 'this', 'web')],
      2,
      50,
      'c is rolled back: web',
    ],
    [
      'does not open with a quorum and one node without some Services',
      [...yes('a', 'b'), receiptOf('c', 'partial', 'this', 'without shop/cart')],
      2,
      50,
      'c is without some of its Services: without shop/cart',
    ],
    [
      'does not complete the release while a node lacks some of its Services',
      [...yes('a', 'b', 'c', 'd'), receiptOf('e', 'partial', 'this', 'x')],
      3,
      100,
      'e is without some of its Services: x',
    ],
    [
      'does not open after a manual rollback on a node',
      [receiptOf('a', 'chosen', 'nothing', 'manually')],
      1,
      100,
      'a is on rules chosen by an operator: manually',
    ],
    [
      'does not open while a node is behind',
      [receiptOf('a', 'same', 'older')],
      1,
      100,
      'a is behind: its receipt is about release 41: same',
    ],
    ['ignores a halted node of a closed wave', [...yes('a'), receiptOf('d', 'held', 'older')], 1, 100, 'opens 2 rack'],
    [
      'does not open when a node of a closed wave refused the release in a rehearsal',
      [...yes('a'), receiptOf('e', 'refused', 'this', 'x')],
      1,
      1,
      'e is refusing: x',
    ],
    [
      'ignores a refused endpoint update in a closed wave',
      [...yes('a'), receiptOf('d', 'refused', 'update', 'x'), receiptOf('e', 'rolled-back', 'update', 'x')],
      1,
      100,
      'opens 2 rack',
    ],
    [
      'reports failures after the last wave',
      [...yes('a', 'b', 'c', 'd'), receiptOf('e', 'rolled-back', 'this', 'x')],
      3,
      100,
      'e is rolled back: x',
    ],
    ['reports that all are open', yes('a', 'b', 'c', 'd', 'e'), 3, 100, 'all open'],
  ] as const)('%s', (_title, words, open, quorum, expected) => {
    expect(answer(words, open, quorum)).toBe(expected);
  });

  test('waits for an operator where a node was confirmed with failing probes, whatever the quorum', () => {
    const failing = [receiptWith([{ name: 'web', healthy: false }])];
    expect(answer(failing, 1, 1)).toBe('a is confirmed: with failing probes: web');
    expect(answer(failing, 1, 100, true)).toBe('opens 2 rack');
    const all = [...failing, ...yes('b', 'c', 'd', 'e')];
    expect(answer(all, 3)).toBe('a is confirmed: with failing probes: web');
    expect(answer(all, 3, 100, true)).toBe('all open');
    const decision = promote(waves, 1, judge(failing, 1), { quorum: 100 });
    expect(decision).toMatchObject({ problems: [{ hint: expect.stringContaining('--accept-failing') }] });
  });

  test.each([1, 7, 14, 28, 55, 56, 99, 100])('needs exactly %i of a hundred nodes for that percentage', (quorum) => {
    const nodes = Array.from({ length: 100 }, (_, index) => `n${index}`);
    const two = [
      { name: 'all', nodes },
      { name: 'last', nodes: ['z'] },
    ];
    const kindWith = (count: number): string => {
      const aim = { ...target(1), nodes: [...nodes, 'z'], waves: two };
      return promote(two, 1, judgeFleet(new Map(yes(...nodes.slice(0, count))), [], aim), { quorum }).kind;
    };
    expect([kindWith(quorum - 1), kindWith(quorum)]).toEqual(['not-ready', 'open']);
  });

  test('names at most 20 of a thousand silent nodes', () => {
    const nodes = Array.from({ length: 1000 }, (_, index) => `n${index}`);
    const many = [
      { name: 'all', nodes },
      { name: 'last', nodes: ['z'] },
    ];
    const fleet = judgeFleet(new Map(), [], { ...target(1), nodes: [...nodes, 'z'], waves: many });
    const decision = promote(many, 1, fleet, { quorum: 100 });
    expect(decision.kind === 'not-ready' && decision.problems).toHaveLength(21);
  });
});

describe('what to do next', () => {
  const [a, b, c, d, e] = ['a', 'b', 'c', 'd', 'e'].map((node) => receiptOf(node, 'confirmed'));
  const drained = (): readonly [string, Evidence] => {
    const [node, evidence] = receiptOf('e', 'confirmed');
    return [node, { ...evidence, receipt: evidence.receipt && { ...evidence.receipt, draining: 'operator' } }];
  };
  test.each([
    ['the worst state first', [a!, receiptOf('b', 'held'), receiptOf('c', 'refused')], 2, /^free b: /],
    ['a failure of a closed wave', [a!, receiptOf('e', 'rolled-back')], 1, /failed on e, /],
    ['a silent node of an open wave', [a!, b!], 2, /^fetch receipts of c, /],
    ['no silent node of a closed wave', [a!], 1, /^open wave 2 \(rack\) with sluice promote$/],
    [
      'failing probes before the next wave',
      [receiptWith([{ name: 'web', healthy: false }])],
      1,
      /^look at the probes of a: /,
    ],
    ['the first wave', [], 0, /^open wave 1 \(canary\) with/],
    ['a drain after the last wave', [a!, b!, c!, d!, drained()], 3, /^end the drain of e once/],
    ['nothing', [a!, b!, c!, d!, e!], 3, /^nothing$/],
  ] as const)('is %s', (_title, words, open, expected) => {
    expect(nextStep(judge(words, open))).toMatch(expected);
  });

  test('is keys where no node is known, and names three nodes at most', () => {
    expect(nextStep(judgeFleet(new Map(), []))).toBe('add the keys of nodes to allowed_receipts');
    const many = Array.from({ length: 5 }, (_, index) => silent(`n${index}`));
    expect(nextStep(judgeFleet(new Map(many), []))).toMatch(/^fetch receipts of n0, n1, n2 and 2 more, /);
  });
});

test('a fleet has the time of its newest receipt, by the clocks of nodes', () => {
  expect(judge([receiptOf('a', 'confirmed'), silent('b')]).newest).toBe('2026-12-01T12:00:00Z');
  expect(judge([silent('b')]).newest).toBeNull();
});
