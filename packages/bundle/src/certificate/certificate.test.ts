import { runs } from '@sluice/testing';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  type CertificateFacts,
  certificateMisfit,
  makeCertificate,
  type ParityCertificate,
  printCertificate,
  readCertificate,
} from './certificate.ts';
import { differenceWith, gap, reportWith } from '../parity/report.fixture.ts';
import type { ParityReport } from '../parity/report.ts';

const nowMs = Date.parse('2026-12-01T12:00:00Z');
const difference = differenceWith();
const other = differenceWith({ id: '0000000000000000' });
const ofMode = differenceWith({ id: '2222222222222222', cause: 'mode' });
const equivalent = reportWith({ differences: [ofMode] });
const parity = reportWith({ differences: [difference, other, ofMode] });
const terms = { accepted: [], by: 'alice', nowMs, seconds: 3600 };
const certificate = makeCertificate(equivalent, terms) as ParityCertificate;

describe('a certificate', () => {
  test('reads back, and has one form', () => {
    expect(readCertificate(printCertificate(certificate))).toEqual(certificate);
    expect(readCertificate(printCertificate(certificate).replace('\n', '\n '))).toBe('it is not in canonical form');
  });

  test.each<[string, Partial<ParityReport>]>([
    ['node', { node: '../../etc/cron.d/x' }],
    ['node', { node: 'a'.repeat(254) }],
    ['bootId', { bootId: 'x' }],
    ['version', { version: '8'.repeat(17) }],
    ['observed', { observedDigest: 'a' }],
  ])('is not made where a node would not read its %s', (field, part) => {
    expect(makeCertificate({ ...equivalent, ...part }, terms)).toContain(`${field} is not valid`);
  });

  test('is made of a different result when each difference is accepted, and says by whom', () => {
    const some = makeCertificate(parity, { ...terms, accepted: ['1111111111111111'] });
    expect(some).toContain(
      '1 of its differences are not accepted, the first: 0000000000000000 (shop/web 10.96.0.10:80',
    );
    expect(makeCertificate(parity, { ...terms, accepted: ['1111111111111111', '0000000000000000'] })).toMatchObject({
      result: 'different',
      exceptions: [
        { id: '0000000000000000', by: 'alice' },
        { id: '1111111111111111', by: 'alice' },
      ],
    });
  });

  test.each(['', '  ', 'alice\n', 'a'.repeat(101)])('has no exception that %j accepts', (by) => {
    const accepted = ['1111111111111111', '0000000000000000'];
    expect(makeCertificate(parity, { ...terms, accepted, by })).toContain('exceptions is not valid');
  });

  test('is made of documented differences of modes without acceptance', () => {
    expect(certificate).toMatchObject({ result: 'equivalent', exceptions: [] });
  });

  test.each<[string, ParityReport, readonly string[], string]>([
    ['of saved outputs', { ...equivalent, bootId: undefined as unknown as string }, [], 'saved outputs'],
    ['with a gap that matters', { ...equivalent, coverage: { ...equivalent.coverage, notCovered: [gap] } }, [], 'u32'],
    ['of a change alone', { ...equivalent, base: { version: '0'.repeat(16), known: 1 } }, [], 'without --base'],
    ['with an exception that is no difference', equivalent, ['9'.repeat(16)], 'has no difference 9999999999999999'],
  ])('is not made of a report %s', (_title, report, accepted, why) => {
    expect(makeCertificate(report, { ...terms, accepted })).toContain(why);
  });

  test('is valid for a day at most', () => {
    const long = { ...certificate, expires: '2026-12-02T12:00:01Z' };
    expect(readCertificate(printCertificate(long))).toContain('more than a day');
    expect(makeCertificate(equivalent, { ...terms, seconds: 24 * 3600 + 1 })).toContain('more than a day');
  });

  test('does not hide exceptions behind its result', () => {
    const hidden = { ...certificate, exceptions: [{ id: '1'.repeat(16), by: 'alice' }] };
    expect(readCertificate(printCertificate(hidden))).toContain('exceptions do not match');
  });

  test('is refused as text of another kind, whatever it is', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(typeof readCertificate(`${JSON.stringify(value, undefined, 2)}\n`)).toBe('string');
      }),
      runs(300),
    );
  });
});

const facts: CertificateFacts = { ...certificate, nowMs };

test.each<[string, Partial<CertificateFacts>, string | undefined]>([
  ['at once', {}, undefined],
  ['a second before its end', { nowMs: nowMs + 3_599_000 }, undefined],
  ['at its end', { nowMs: nowMs + 3_600_000 }, 'it expired at 2026-12-01T13:00:00Z'],
  ['by a clock that is five minutes behind', { nowMs: nowMs - 300_000 }, undefined],
  ['by a clock that is six minutes behind', { nowMs: nowMs - 360_000 }, 'is 360 s behind'],
  ['on another node', { node: 'node-b' }, 'it is for node node-a'],
  ['after a boot', { bootId: '11111111-7d6b-4a35-9c22-6d1f54a6c1b2' }, 'has booted since'],
  ['for another bundle', { version: '9'.repeat(16) }, 'it is for version 8888888888888888'],
  ['after another change of the rules', { observed: 'b'.repeat(64) }, 'have changed since'],
])('a certificate is judged %s', (_title, change, why) => {
  const misfit = certificateMisfit(certificate, { ...facts, ...change });
  expect(misfit ?? 'none').toContain(why ?? 'none');
});
