import type { Level, Problem, ProblemCode } from '@sluice/netfilter';
import { expect, test } from 'vitest';
import { countProblems, printProblems } from './problems.ts';

const problem = (level: Level): Problem => ({
  code: 'DIFFERS_LOCALHOST',
  level,
  message: 'Cannot do a thing',
  hint: 'Do another',
});

test.each<[string, Level[], string]>([
  ['nothing', [], ''],
  [
    'one of each',
    ['note', 'guess', 'differs', 'warning', 'error'],
    '1 error, 1 warning, 1 difference, 1 guess, 1 note',
  ],
  ['several', ['differs', 'guess', 'differs', 'guess'], '2 differences, 2 guesses'],
])('counts %s, the worst first', (_title, levels, text) => {
  expect(countProblems(levels.map(problem))).toBe(text);
});

test('prints differences of mode ipvs with their own level', () => {
  expect(printProblems([problem('differs')])).toBe('differs: Cannot do a thing [DIFFERS_LOCALHOST]\n    Do another\n');
});

test('prints the same problem of many objects once, unless it is an error or --verbose is given', () => {
  const of = (level: Level, count: number): readonly Problem[] =>
    Array.from({ length: count }, (_, index) => ({ ...problem(level), object: `Service shop/s-${index}` }));
  expect(printProblems(of('warning', 3)).match(/^warning:/gm)).toHaveLength(3);
  expect(printProblems(of('warning', 7), false)).toBe(
    'warning: Cannot do a thing [DIFFERS_LOCALHOST]\n    7 objects: Service shop/s-0, Service shop/s-1, Service shop/s-2, Service shop/s-3, Service shop/s-4 and 2 more (--verbose lists them)\n    Do another\n',
  );
  expect(printProblems(of('note', 5))).toContain('5 objects: Service shop/s-0, ');
  expect(printProblems(of('error', 7)).match(/^error:/gm)).toHaveLength(7);
  expect(printProblems(of('warning', 7), true).match(/^warning:/gm)).toHaveLength(7);
});

test('does not mention --verbose for a command without it', () => {
  const all = Array.from({ length: 7 }, (_, index) => ({ ...problem('note'), object: `Service shop/s-${index}` }));
  expect(printProblems(all)).toContain('Service shop/s-4 and 2 more\n');
});

test.each<[string, ProblemCode, string, string]>([
  [
    'Services without endpoints',
    'SERVICE_WITHOUT_ENDPOINTS',
    'Service',
    'warning: 14 Services have no endpoints, so their traffic is rejected: shop/a-10, shop/a-11, shop/a-12, shop/a-13, shop/a-14 and 9 more (--verbose lists them) [SERVICE_WITHOUT_ENDPOINTS]\n    Do another\n',
  ],
  [
    'slices of no Service',
    'SLICE_WITHOUT_SERVICE',
    'EndpointSlice',
    'warning: 14 EndpointSlices name no Service and are ignored, as by kube-proxy: shop/a-10, shop/a-11, shop/a-12, shop/a-13, shop/a-14 and 9 more (--verbose lists them) [SLICE_WITHOUT_SERVICE]\n    Do another\n',
  ],
])('counts %s in one line', (_title, code, kind, text) => {
  const objects = Array.from({ length: 14 }, (_, index) => `${kind} shop/a-${index + 10}`);
  const all = objects.map((object) => ({ ...problem('warning'), code, object }));
  expect(printProblems(all, false)).toBe(text);
  expect(printProblems(all, true).match(/^warning: /gm)).toHaveLength(14);
});
