import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import {
  type NftTableOptions,
  printNftTable,
  readNftTable,
  tableEditions,
  tableLine,
  tableOptions,
  withNewestTable,
} from './table.ts';

const plain: NftTableOptions = { detector: 'address', masqueradeAll: false };

test.each<[string, NftTableOptions]>([
  ['table 4 address', plain],
  ['table 4 address masquerade-all', { ...plain, masqueradeAll: true }],
  ['table 4 address tcp-reset', { ...plain, tcpReset: true }],
  ['table 4 address clients 2048', { ...plain, affinityClients: 2048 }],
  ['table 4 address counters', { ...plain, endpointCounters: true }],
  ['table 4 address localhost-refused', { ...plain, localhost: 'refused' }],
  ['table 4 address localhost-served', { ...plain, localhost: 'served' }],
  ['table 4 address localhost-refused localhost-listener', { ...plain, localhost: 'refused', localhostListener: true }],
  [
    'table 4 interface ${profile.interfaceNamePrefix}* masquerade-all tcp-reset clients 16777216 counters localhost-served localhost-listener',
    {
      detector: { interface: '${profile.interfaceNamePrefix}*' },
      masqueradeAll: true,
      tcpReset: true,
      affinityClients: 16_777_216,
      endpointCounters: true,
      localhost: 'served',
      localhostListener: true,
    },
  ],
])('reads the table of the profile: %s', (line, options) => {
  for (const edition of tableEditions)
    expect(readNftTable(printNftTable(options, edition))).toBe(line.replace('4', String(edition)));
  expect(tableLine(tableOptions([line]))).toBe(line);
});

test.each([
  [1, '85a33372bcd3f8e4'],
  [2, '5c8228b4d742e837'],
  [3, 'da94556353a36a15'],
  [4, 'df18ea57e8624354'],
] as const)('the text of edition %i stays as it is, because bundles and kernels have it', (edition, digest) => {
  expect(createHash('sha256').update(printNftTable(plain, edition)).digest('hex').slice(0, 16)).toBe(digest);
});

test('a state has the newest edition of its table', () => {
  expect(withNewestTable(['table 1 address clients 2048', 'pods 10.244.0.0/16'])).toEqual([
    'table 4 address clients 2048',
    'pods 10.244.0.0/16',
  ]);
});

test('an interface may have the name of an option', () => {
  const line = 'table 4 interface tcp-reset';
  expect(tableOptions([line])).toMatchObject({ detector: { interface: 'tcp-reset' }, tcpReset: false });
  expect(tableLine(tableOptions([line]))).toBe(line);
});

test.each([
  ['another rule', (text: string) => text.replace('reject\n', 'accept\n')],
  ['another size in one family', (text: string) => text.replace('size 1048576', 'size 65536')],
  ['a counter in one map', (text: string) => text.replace('tcp dport; }', 'tcp dport; counter; }')],
  ['a size that is no number', (text: string) => text.replaceAll('size 1048576', 'size 1e6')],
])('refuses a table with %s', (_title, change) => {
  expect(readNftTable(change(printNftTable(plain)))).toBeUndefined();
});

test('refuses TCP with a reset, and all else with an ICMP error', () => {
  const refuse = /chain refuse \{\n([^}]*)\}/;
  const rules = (options: NftTableOptions): readonly string[] =>
    (refuse.exec(printNftTable(options))?.[1] ?? '').trim().split(/\n */);
  expect(rules(plain)).toEqual(['reject']);
  expect(rules({ ...plain, tcpReset: true })).toEqual(['meta l4proto tcp reject with tcp reset', 'reject']);
});
