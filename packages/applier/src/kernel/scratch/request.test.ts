import { printNft } from '@sluice/netfilter';
import { describe, expect, test } from 'vitest';
import type { NodeState } from '../../ports/node-state.ts';
import { loadOf, type RehearsalLoad } from './load.ts';
import { RequestError } from './lines.ts';
import { printRequest, readRequest } from './request.ts';

const rules = '*nat\n:KUBE-A - [0:0]\n-A KUBE-A -j RETURN\n-I OUTPUT 1 -m comment --comment "a b" -j KUBE-A\nCOMMIT\n';
const load: RehearsalLoad = {
  backend: 'nft',
  sets: 'create KUBE-NODE-PORT-TCP bitmap:port range 0-65535\n',
  servers: '-A -t 198.51.100.1:1 -s rr -p 360\n',
  rules: new Map([
    ['ipv4', [rules, '*filter\n:KUBE-F - [0:0]\nCOMMIT\n']],
    ['ipv6', [rules]],
  ]),
  nft: '',
};

async function* inPieces(bytes: Buffer, size: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

/** Everything of a request, by part. */
async function readWhole(source: AsyncIterable<Buffer>): Promise<Record<string, string>> {
  const { backend, parts } = await readRequest(source);
  const all: Record<string, string> = { backend };
  for await (const { name, text } of parts) {
    all[name] = '';
    for await (const piece of text) all[name] += piece;
  }
  return all;
}

const read = (text: string): Promise<Record<string, string>> => readWhole(inPieces(Buffer.from(text, 'latin1'), 1000));

test.each([1, 7, 100, 65_536])('transmits a request in pieces of %s bytes', async (size) => {
  const bytes = Buffer.concat([...printRequest(load)]);
  expect(await readWhole(inPieces(bytes, size))).toEqual({
    backend: 'nft',
    sets: load.sets,
    servers: load.servers,
    ipv4: [...(load.rules.get('ipv4') ?? [])].join(''),
    ipv6: rules,
  });
});

test('splits a long text into chunks', async () => {
  const long = `*nat\n:KUBE-A - [0:0]\n${'-A KUBE-A -j RETURN\n'.repeat(10_000)}COMMIT\n`;
  const pieces = [...printRequest({ ...load, sets: '', servers: '', rules: new Map([['ipv4', [long]]]) })];
  expect(pieces.length).toBeGreaterThan(4);
  expect(Math.max(...pieces.map(({ length }) => length))).toBeLessThan(70_000);
  expect(await readWhole(inPieces(Buffer.concat(pieces), 50_000))).toEqual({ backend: 'nft', ipv4: long });
});

/** A request with one part of this text. */
const one = (name: string, text: string): string =>
  `sluice-rehearsal/1 nft\n${name}\n${text === '' ? '' : `${text.length}\n${text}`}0\nend\n`;
const table = (line: string): string => one('ipv4', `*nat\n:KUBE-A - [0:0]\n${line}\nCOMMIT\n`);

describe('a request is refused when', () => {
  test.each([
    ['it is empty', ''],
    ['it is something else', 'GET / HTTP/1.1\r\n\r\n'],
    ['it is of another version', 'sluice-rehearsal/2 nft\nend\n'],
    ['it names a store that there is not', 'sluice-rehearsal/1 /bin/sh\nend\n'],
    ['its first line has no end', `sluice-rehearsal/1 ${'x'.repeat(5_000)}`],
    ['it stops before its end', 'sluice-rehearsal/1 nft\n'],
    ['it stops in a chunk', 'sluice-rehearsal/1 nft\nipv4\n100\n*nat\n'],
    ['it stops before the end of a part', 'sluice-rehearsal/1 nft\nipv4\n5\n*nat\n'],
    ['it names a tool', one('iptables-restore', '')],
    ['parts are in another order', 'sluice-rehearsal/1 nft\nipv4\n0\nsets\n0\nend\n'],
    ['a part comes twice', 'sluice-rehearsal/1 nft\nipv4\n0\nipv4\n0\nend\n'],
    ['a chunk is longer than it may be', 'sluice-rehearsal/1 nft\nipv4\n65537\n'],
    ['a length is no number', 'sluice-rehearsal/1 nft\nipv4\n-1\n0\nend\n'],
    ['a length has more digits than any', 'sluice-rehearsal/1 nft\nipv4\n99999999999999999999\n'],
    ['a length is written otherwise than we write it', 'sluice-rehearsal/1 nft\nipv4\n005\n*nat\n0\nend\n'],
    ['trailing data', 'sluice-rehearsal/1 nft\nend\nend\n'],
    ['the setup of mode ipvs is more than any', one('sets', load.sets.repeat(2_000))],
    ['a rule names a program', table('-A KUBE-A -j RETURN -M /tmp/x')],
    ['a rule names a program in quotes', table('-A KUBE-A "--modprobe=/tmp/x" -j RETURN')],
    ['a rule opens a file', table('-A KUBE-A -m bpf --object-pinned /x -j RETURN')],
    ['a rule has an address of the other family', table('-A KUBE-A -d fd00::1/128 -j RETURN')],
    ['a rule is deleted', table('-D OUTPUT -j KUBE-A')],
    ['a chain is deleted', table('-X KUBE-A')],
    ['a policy is set', table(':OUTPUT DROP [0:0]')],
    ['a table is flushed', table('-F')],
    ['a line is empty', table('')],
    ['a line is a remark', table('# x')],
    ['a line has a NUL', table('-A KUBE-A -j RETURN\0')],
    ['a line is longer than a rule may be', table(`-A KUBE-A -m comment --comment "${'x'.repeat(2_000)}" -j RETURN`)],
    ['it is of a table that is not ours', one('ipv4', '*raw\nCOMMIT\n')],
    ['a line stands outside of a table', one('ipv4', ':KUBE-A - [0:0]\n')],
    ['a table has no COMMIT', one('ipv4', '*nat\n')],
    ['the last line has no end', one('ipv4', '*nat\nCOMMIT')],
    ['a set is not of mode ipvs', one('sets', 'create x hash:ip\n')],
    ['a set gets an entry', one('sets', 'add KUBE-NODE-PORT-TCP 80\n')],
    ['sets are destroyed', one('sets', 'destroy\n')],
    ['a real server is added', one('servers', '-a -t 198.51.100.1:1 -r 10.0.0.1:80 -m -w 1\n')],
    ['virtual servers are removed', one('servers', '-C\n')],
  ])('%s', async (_title, text) => {
    await expect(read(text)).rejects.toBeInstanceOf(RequestError);
  });
});

test('passes on the lines before a bad one only', async () => {
  const { parts } = await readRequest(inPieces(Buffer.from(table('-A KUBE-A -M /x'), 'latin1'), 10));
  let seen = '';
  await expect(async () => {
    for await (const { text } of parts) for await (const piece of text) seen += piece;
  }).rejects.toThrow('-M');
  expect(seen).not.toContain('-M');
  expect(seen).not.toContain('COMMIT');
});

/** A state of mode nftables with each kind of list, long enough for lines that must be split. */
const ofNft: NodeState = {
  families: {},
  sysctls: new Map(),
  nft: {
    settings: ['table 4 interface cali*', 'node 192.0.2.11', 'cidr fd00:10:96::/112'],
    frontends: new Map([
      ['0.0.0.0 . tcp . 30080', ['outside local', 'affinity 600', 'endpoint 10.244.1.5 . 80', 'local 10.244.1.5 . 80']],
      [
        'fd00:10:96::a . udp . 53',
        ['cluster-ip', ...Array.from({ length: 40 }, (_, at) => `endpoint fd00::${at} . 53`)],
      ],
      ['203.0.113.9 . tcp . 80', ['none drop', 'range 198.51.100.0/25']],
    ]),
  },
};

/** The text of part nft as the server gets it. */
async function received(nft: string): Promise<string> {
  const bytes = Buffer.concat([...printRequest({ backend: 'nft', sets: '', servers: '', rules: new Map(), nft })]);
  let text = '';
  for await (const part of (await readRequest(inPieces(bytes, 1000))).parts)
    for await (const piece of part.text) text += piece;
  return text;
}

test('the server gets the table of mode nftables, and every element of it', async () => {
  const { nft } = loadOf(ofNft, 'nft');
  expect(await received(nft)).toBe(nft);
  const elements = (text: string): readonly string[] =>
    [...text.matchAll(/^add element inet sluice (\S+) \{ (.*) \}$/gm)].flatMap(([, set, all = '']) =>
      all.split(', ').map((element) => `${set} ${element}`),
    );
  expect(elements(nft)).toEqual(elements(ofNft.nft ? printNft(ofNft.nft) : ''));
});

test.each([
  ['another command', (text: string) => `${text}flush ruleset\n`],
  ['another table', (text: string) => text.replace('table inet sluice {', 'table inet filter {')],
  ['a changed rule of the table', (text: string) => text.replace('goto services4', 'goto services6')],
  ['a changed rule of a list', (text: string) => text.replace('timeout 600s', 'timeout 601s')],
  ['an include', (text: string) => `${text}include "/etc/shadow"\n`],
  ['a variable', (text: string) => `${text}add element inet sluice svc4 { $x }\n`],
  ['a second command on a line', (text: string) => `${text}add element inet sluice svc4 { 1 } ; flush ruleset\n`],
  [
    'half a list',
    (text: string) => text.slice(0, text.indexOf('add element')).split('\n').slice(0, -2).join('\n').concat('\n'),
  ],
])('a table is refused with %s', async (_title, edit) => {
  const { nft } = loadOf(ofNft, 'nft');
  await expect(received(edit(nft))).rejects.toThrow(RequestError);
});
