import { describe, expect, test } from 'vitest';
import { NftReader } from './observed.ts';

/** The elements of a listing, set by set. */
function elementsOf(listing: string): Readonly<Record<string, readonly (readonly [string, string])[]>> {
  const reader = new NftReader();
  // Parts end anywhere.
  for (let at = 0; at < listing.length; at += 7) reader.take(listing.slice(at, at + 7));
  return Object.fromEntries([...reader.done().elements].map(([set, held]) => [set, [...held]]));
}

const setOf = (name: string, elements: string): string =>
  `table inet sluice {\n\tset ${name} {\n\t\ttype x\n\t\telements = { ${elements} }\n\t}\n\n\tset last4 {\n\t\ttype x\n\t}\n}\n`;

describe('the listing of the table', () => {
  test.each<readonly [string, string, string, readonly (readonly [string, string])[]]>([
    [
      'a comment with a comma and braces',
      'cluster4',
      '9.9.9.9 comment "a, b } : c", 9.9.9.8',
      [
        ['9.9.9.9', ''],
        ['9.9.9.8', ''],
      ],
    ],
    [
      'a comment with line feeds that looks like the end of the set',
      'cluster4',
      '9.9.9.8 comment "a\n}\nchain foo {\nx",\n\t\t\t     9.9.9.9',
      [
        ['9.9.9.8', ''],
        ['9.9.9.9', ''],
      ],
    ],
    [
      'a comment between key and verdict',
      'svc4',
      '9.9.9.9 . 6 . 80 comment "goto x : drop" : goto refuse',
      [['9.9.9.9 . 6 . 80', 'goto refuse']],
    ],
    [
      'IPv6 addresses that nft prints like IPv4',
      'tcp6',
      '::0.2.0.1 . 80 . 0 : ::1.2.0.0 . 8080,\n\t\t\t     fd00::1 . 80 . 0 : ::5 . 8080',
      [
        ['::2:1 . 80 . 0', '::102:0 . 8080'],
        ['fd00::1 . 80 . 0', '::5 . 8080'],
      ],
    ],
    [
      'networks of such addresses',
      'cidr6',
      '::1.2.0.0/112, ::/96',
      [
        ['::102:0/112', ''],
        ['::/96', ''],
      ],
    ],
    ['times', 'trial4', '10.0.0.0/25 timeout 30s expires 29s996ms', [['10.0.0.0/25', '']]],
  ])('is read with %s', (_title, name, elements, expected) => {
    expect(elementsOf(setOf(name, elements))).toEqual({ [name]: expected, last4: [] });
  });
});

test.each<readonly [string, string, readonly string[]]>([
  ['an owner of this table', 'flags owner,persist', []],
  ['a table without its owner', 'flags persist', []],
  ['one that nft 1.0.6 lists, which has no word for it', 'flags ', []],
  ['a dormant table, through which no packet goes', 'flags dormant', ['flags dormant']],
  ['a dormant one that is protected', 'flags dormant,persist', ['flags dormant']],
])('%s is told by its flags', (_title, flags, parts) => {
  const reader = new NftReader();
  reader.take(`table inet sluice { # progname nft\n\t${flags}\n\n\tset a {\n\t\ttype x\n\t}\n}\n`);
  expect([...reader.done().parts]).toEqual([...parts, 'set a']);
});
