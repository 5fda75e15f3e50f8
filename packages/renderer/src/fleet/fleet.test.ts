import { describe, expect, test } from 'vitest';
import { said, saidWith, silent, target, waves } from './fleet.fixture.ts';
import { type Evidence, isWell, judgeFleet } from './fleet.ts';
import { promote } from './promote.ts';

type Words = readonly (readonly [string, Evidence])[];
const judge = (words: Words, open = 2) => judgeFleet(new Map(words), [], target(open));

describe('a node', () => {
  test.each([
    ['that confirmed the release runs it', said('a', 'confirmed'), 'runs', null],
    [
      'that confirmed it with failing probes says so',
      saidWith([{ name: 'web', healthy: false }]),
      'runs',
      'with failing probes: web',
    ],
    ['whose rules the release left as they were runs it', said('a', 'same'), 'runs', null],
    [
      'that went back says why',
      said('a', 'rolled-back', 'this', 'health failed: web'),
      'rolled-back',
      'health failed: web',
    ],
    ['that refused it says why', said('a', 'refused', 'this', 'too old'), 'refused', 'too old'],
    ['that refused something without a name says no to this one', said('a', 'refused', 'nothing', 'x'), 'refused', 'x'],
    [
      'that refused an update of its endpoints says so',
      said('a', 'refused', 'update', 'more than endpoints'),
      'refused',
      'other content of serial 42, as of an update of endpoints: more than endpoints',
    ],
    [
      'on which endpoints went back says so',
      said('a', 'rolled-back', 'update', 'the kernel took none'),
      'rolled-back',
      'other content of serial 42, as of an update of endpoints: the kernel took none',
    ],
    [
      'that runs other content of its serial is behind',
      said('a', 'confirmed', 'update'),
      'behind',
      'it speaks of another release with serial 42: confirmed',
    ],
    [
      'that refused what is of another cluster is behind',
      said('a', 'refused', 'elsewhere'),
      'behind',
      'it speaks of another release with serial 42: refused',
    ],
    ['that is held is held, whatever release did it', said('a', 'held', 'older', 'x'), 'held', 'x'],
    [
      'on which a person went back is not on the release',
      said('a', 'chosen', 'nothing', 'a person'),
      'by-hand',
      'a person',
    ],
    [
      'that rolled an older release back is behind',
      said('a', 'rolled-back', 'older'),
      'behind',
      'it speaks of release 41: rolled-back',
    ],
    [
      'that runs an older release is behind',
      said('a', 'confirmed', 'older'),
      'behind',
      'it speaks of release 41: confirmed',
    ],
    ['that runs an older release waits while its wave is shut', said('d', 'confirmed', 'older'), 'waits', null],
    [
      'whose wave is shut is not excused for what went wrong',
      said('d', 'rolled-back', 'older'),
      'behind',
      'it speaks of release 41: rolled-back',
    ],
    [
      'that runs what is no release is behind',
      said('a', 'confirmed', 'nothing'),
      'behind',
      'it runs a bundle that is no release',
    ],
    ['of which nothing came is silent', silent('a'), 'silent', 'no receipt is there'],
    [
      'of which nothing counts is silent',
      silent('a', 'number 9: its signature is missing'),
      'silent',
      'no receipt counts: number 9: its signature is missing',
    ],
  ] as const)('%s', (_title, word, state, why) => {
    const [node] = word;
    expect(judge([word]).rows.find((row) => row.node === node)).toMatchObject({ state, why });
  });
});

test('the worst comes first, then the name; a fleet is well when all run it or wait', () => {
  const fleet = judge([said('b', 'same'), said('a', 'confirmed'), said('e', 'held'), said('d', 'same', 'older')]);
  expect(fleet.rows.map(({ node, state }) => `${node} ${state}`)).toEqual([
    'e held',
    'c silent',
    'd waits',
    'a runs',
    'b runs',
  ]);
  expect(isWell(fleet)).toBe(false);
  const well = judge([
    ...['a', 'b', 'c'].map((node) => said(node, 'same')),
    said('d', 'same', 'older'),
    said('e', 'confirmed'),
  ]);
  expect(isWell(well)).toBe(true);
});

test('without a release the newest that is spoken of is the measure; nothing said is not well', () => {
  const fleet = judgeFleet(new Map([said('a', 'confirmed'), said('b', 'same', 'older')]), ['x']);
  expect(fleet).toMatchObject({ serial: 42, strangers: ['x'], counts: { runs: 1, behind: 1 } });
  expect(isWell(judgeFleet(new Map(), []))).toBe(false);
});

test('without a release an update that one node refused is no measure for those that run the release', () => {
  const fleet = judgeFleet(new Map([said('a', 'refused', 'update', 'x'), said('b', 'confirmed')]), []);
  expect(fleet.rows.map(({ node, state }) => `${node} ${state}`)).toEqual(['a refused', 'b runs']);
});

describe('the next wave', () => {
  const yes = (...nodes: readonly string[]): Words => nodes.map((node) => said(node, 'confirmed'));
  const answer = (words: Words, open: number, quorum = 100): string => {
    const decision = promote(waves, open, judge(words, open), quorum);
    if (decision.kind === 'open') return `opens ${decision.open} ${decision.wave.name}`;
    return decision.kind === 'all-open' && decision.problems.length === 0
      ? 'all open'
      : decision.problems.map(({ message }) => message.slice(message.indexOf(': ') + 2)).join('; ');
  };
  test.each([
    ['the first opens without a word', [], 0, 100, 'opens 1 canary'],
    ['the second when the first is well', yes('a'), 1, 100, 'opens 2 rack'],
    ['not when a node is silent', yes('a', 'b'), 2, 100, 'c is silent: no receipt is there'],
    ['not for a node of a shut wave that is well', yes('d', 'e'), 1, 100, 'a is silent: no receipt is there'],
    ['with a quorum one may be missing', yes('a', 'b'), 2, 66, 'opens 3 others'],
    ['but not two', yes('a'), 2, 66, 'b is silent: no receipt is there; c is silent: no receipt is there'],
    [
      'nor does a quorum help one that refused an update of endpoints',
      [...yes('b', 'c'), said('a', 'refused', 'update', 'x')],
      2,
      1,
      'a is refusing: other content of serial 42, as of an update of endpoints: x',
    ],
    [
      'with a quorum one that says no still stops it',
      [...yes('a', 'b'), said('c', 'rolled-back', 'this', 'web')],
      2,
      50,
      'c is rolled back: web',
    ],
    [
      'not when a person went back on a node',
      [said('a', 'chosen', 'nothing', 'a person')],
      1,
      100,
      'a is on what a person chose: a person',
    ],
    ['not while a node is behind', [said('a', 'same', 'older')], 1, 100, 'a is behind: it speaks of release 41: same'],
    ['a node of a wave that is shut stops nothing', [...yes('a'), said('d', 'held', 'older')], 1, 100, 'opens 2 rack'],
    [
      'a node of a wave that is shut stops it when it has rehearsed the release and says no',
      [...yes('a'), said('e', 'refused', 'this', 'x')],
      1,
      1,
      'e is refusing: x',
    ],
    [
      'which says nothing when it has refused other content of the serial, as of an update of endpoints',
      [...yes('a'), said('d', 'refused', 'update', 'x'), said('e', 'rolled-back', 'update', 'x')],
      1,
      100,
      'opens 2 rack',
    ],
    [
      'after the last one may still say no',
      [...yes('a', 'b', 'c', 'd'), said('e', 'rolled-back', 'this', 'x')],
      3,
      100,
      'e is rolled back: x',
    ],
    ['after the last there is none', yes('a', 'b', 'c', 'd', 'e'), 3, 100, 'all open'],
  ] as const)('%s', (_title, words, open, quorum, expected) => {
    expect(answer(words, open, quorum)).toBe(expected);
  });

  test.each([1, 7, 14, 28, 55, 56, 99, 100])(
    '%i per cent of a hundred nodes are so many, and not one more',
    (quorum) => {
      const nodes = Array.from({ length: 100 }, (_, index) => `n${index}`);
      const two = [
        { name: 'all', nodes },
        { name: 'last', nodes: ['z'] },
      ];
      const kindWith = (count: number): string => {
        const aim = { ...target(1), nodes: [...nodes, 'z'], waves: two };
        return promote(two, 1, judgeFleet(new Map(yes(...nodes.slice(0, count))), [], aim), quorum).kind;
      };
      expect([kindWith(quorum - 1), kindWith(quorum)]).toEqual(['not-ready', 'open']);
    },
  );

  test('a thousand nodes that are silent are not all named', () => {
    const nodes = Array.from({ length: 1000 }, (_, index) => `n${index}`);
    const many = [
      { name: 'all', nodes },
      { name: 'last', nodes: ['z'] },
    ];
    const fleet = judgeFleet(new Map(), [], { ...target(1), nodes: [...nodes, 'z'], waves: many });
    const decision = promote(many, 1, fleet, 100);
    expect(decision.kind === 'not-ready' && decision.problems).toHaveLength(21);
  });
});
