import { runs } from '@sluice/testing';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  printReceipt,
  quoted,
  readReceipt,
  readReceiptName,
  type Receipt,
  receiptFile,
  withoutQuotes,
} from './receipt.ts';

const receipt: Receipt = {
  node: 'node-a',
  number: 17,
  at: '2026-12-01T12:00:00Z',
  outcome: 'rolled-back',
  release: { cluster: 'shop', serial: 42, digest: 'a'.repeat(64), version: '8'.repeat(16) },
  standing: { generation: 3, version: '7'.repeat(16) },
  serving: { mode: 'nftables', kubeProxy: 'kept-away' },
  codes: ['NODE_REFUSES_RULES'],
  because: 'health failed: web',
  probes: [{ name: 'web', healthy: false }],
  sluiced: '0.1.0',
};
const text = printReceipt(receipt);

describe('a receipt', () => {
  test('reads back, for any order of keys', () => {
    expect(readReceipt(text)).toEqual(receipt);
    const turned = Object.fromEntries(Object.entries(receipt).toReversed()) as unknown as Receipt;
    expect(printReceipt(turned)).toBe(text);
    expect(readReceipt(printReceipt({ ...receipt, release: null, standing: null, because: null }))).toMatchObject({
      release: null,
    });
  });

  test('of an earlier sluiced says nothing about who serves', () => {
    const { serving: _serving, ...earlier } = receipt;
    expect(printReceipt(earlier)).not.toContain('serving');
    expect(readReceipt(printReceipt(earlier))).toEqual(earlier);
  });

  test.each([
    ['a mode that is none', '"nftables"', '"ebpf"'],
    ['a kube-proxy in a state that is none', '"kept-away"', '"gone"'],
    ['an outcome that is none', '"rolled-back"', '"fine"'],
    ['a key that is not known', '"number": 17', '"number": 17, "run": "x"'],
    ['a key twice', '"number": 17,', '"number": 18,\n  "number": 17,'],
    [
      'another order of keys',
      '  "number": 17,\n  "at": "2026-12-01T12:00:00Z",',
      '  "at": "2026-12-01T12:00:00Z",\n  "number": 17,',
    ],
    ['number 0', '"number": 17', '"number": 0'],
    ['number 2^53', '"number": 17', '"number": 9007199254740992'],
    ['another spelling of a number', '"number": 17', '"number": 1.7e1'],
    ['a node with a path out of its folder', '"node-a"', '"../../etc"'],
    ['a node of two lines', '"node-a"', '"node-a\\nnode-b"'],
    ['a reason that colours the terminal', 'health failed: web', '\\u001b[31mred'],
    ['a reason without an end', 'health failed: web', 'x'.repeat(5000)],
    ['a code that is none', 'NODE_REFUSES_RULES', 'constructor'],
    ['a probe that is none', '"healthy": false', '"healthy": "no"'],
    ['local time', '12:00:00Z', '12:00:00'],
    ['no end of line', '}\n', '}'],
    ['trailing data', '}\n', '}\n\n'],
    ['a serial of 0', '"serial": 42', '"serial": 0'],
    ['17 KiB', '"node-a"', `"${'a'.repeat(17 * 1024)}"`],
  ])('is refused with %s', (_title, from, to) => {
    const at = text.lastIndexOf(from);
    const changed = `${text.slice(0, at)}${to}${text.slice(at + from.length)}`;
    expect(at).toBeGreaterThanOrEqual(0);
    expect(readReceipt(changed)).toBeTypeOf('string');
  });

  test('the reader never throws, and accepted texts print unchanged', () => {
    fc.assert(
      fc.property(fc.json(), (json) => {
        const read = readReceipt(json);
        expect(typeof read === 'string' ? json : printReceipt(read)).toBe(json);
      }),
      runs(500),
    );
  });

  test('its file name has the node, and sorts by number', () => {
    expect(readReceiptName(receiptFile(receipt))).toEqual({ node: 'node-a', number: 17 });
    expect(readReceiptName('node-a.17.json')).toBeUndefined();
    expect(readReceiptName(`../x.${'0'.repeat(15)}1.json`)).toBeUndefined();
  });
});

test.each([
  [
    'health failed: web (failed 3 of 5 times, the last: status 500: "token=abc "quoted" x")',
    'health failed: web (failed 3 of 5 times, the last: status 500: )',
  ],
  ['cancelled by the operator', 'cancelled by the operator'],
  ['"all of it"', null],
  ['Cannot trust the node\'s directory: said "it\'s token=abc x"', "Cannot trust the node's directory: said"],
  ['exit code 1: "user\'s token=abc', 'exit code 1:'],
  ['exit code 1: "a "b" token=abc', 'exit code 1:'],
  [`exit code 1: ${quoted('a "b" token=abc')}; gone`, 'exit code 1: ; gone'],
  [`exit code 1: ${quoted('a "b" token=abc').slice(0, -1)}`, 'exit code 1:'],
  ['line\n\u001b[31mbreaks', 'line [31mbreaks'],
])('%j is redacted to %j', (words, expected) => {
  expect(withoutQuotes(words)).toBe(expected);
});
