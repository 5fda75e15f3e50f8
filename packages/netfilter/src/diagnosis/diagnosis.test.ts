import { expect, test } from 'vitest';
import { diagnose, type Finding, printDiagnosis } from './diagnosis.ts';

const finding = (code: Finding['code'], certainty: Finding['certainty'], about?: string): Finding => ({
  code,
  certainty,
  evidence: [`seen ${code}`],
  fix: 'do this',
  ...(about === undefined ? {} : { about }),
});

test('names a certain cause before a likely one, and of two equal ones the one that explains the other', () => {
  const { cause, others, notes } = diagnose(
    'shop/web',
    [
      finding('REVERSE_PATH_FILTER', 'likely'),
      finding('NO_ROUTE', 'certain', 'b'),
      finding('NO_ROUTE', 'certain', 'a'),
      finding('RULES_DIFFER', 'certain'),
      finding('NODE_HALTED', 'note'),
    ],
    [],
  );
  expect(cause?.code).toBe('RULES_DIFFER');
  expect(others.map(({ code, about }) => `${code} ${about ?? ''}`)).toEqual([
    'NO_ROUTE a',
    'NO_ROUTE b',
    'REVERSE_PATH_FILTER ',
  ]);
  expect(notes.map(({ code }) => code)).toEqual(['NODE_HALTED']);
});

test('names a finding once, and a node without causes as such', () => {
  expect(diagnose('x', [finding('NO_ROUTE', 'certain', 'a'), finding('NO_ROUTE', 'certain', 'a')], []).others).toEqual(
    [],
  );
  expect(printDiagnosis(diagnose('all Services', [], [{ what: 'sysctls', because: 'EACCES' }]))).toBe(
    'all Services: no cause found\nnot read sysctls: EACCES\n',
  );
});

test('prints the cause, the evidence and the command first', () => {
  const text = printDiagnosis(
    diagnose('shop/web', [finding('NO_ROUTE', 'certain', 'a'), finding('MTU_TOO_SMALL', 'likely')], []),
  );
  expect(text.split('\n')).toEqual([
    'shop/web: this node has no route to an endpoint, to the address of the Service, or back to clients (a) [NO_ROUTE]',
    '  seen   seen NO_ROUTE',
    '  fix    do this',
    'also     probably packets do not fit through the interface towards an endpoint [MTU_TOO_SMALL]: seen MTU_TOO_SMALL; do this',
    '',
  ]);
});

test('makes every text of a tool printable', () => {
  const hostile = 'x\u001B]0;owned\u0007\nshop/web: no cause found\u202E\u009B2J';
  const diagnosis = diagnose(
    'shop/web',
    [{ code: 'LISTENER_ON_NODE_PORT', certainty: 'likely', about: hostile, evidence: [hostile], fix: hostile }],
    [{ what: 'routes', because: hostile }],
  );
  expect(`${printDiagnosis(diagnosis)}${JSON.stringify(diagnosis)}`).not.toMatch(/[^\P{Cc}\n]|\p{Cf}|\\u00|\\n/u);
  expect(printDiagnosis(diagnosis).trimEnd().split('\n')).toHaveLength(4);
});
