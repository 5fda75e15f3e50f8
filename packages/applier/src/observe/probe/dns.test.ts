import { createSocket, type Socket } from 'node:dgram';
import { runs } from '@sluice/testing';
import fc from 'fast-check';
import { afterEach, expect, test } from 'vitest';
import { dnsQuestion, readDnsAnswer } from './dns-message.ts';
import { tryDns } from './probes.ts';

let server: Socket | undefined;
afterEach(() => {
  server?.close();
  server = undefined;
});

/** A name server that answers each question with what `answer` makes of it. */
async function serve(answer: (question: Buffer) => readonly Buffer[]): Promise<string> {
  const socket = createSocket('udp4');
  server = socket;
  socket.on('message', (question, { port, address }) => {
    for (const message of answer(question)) socket.send(message, port, address);
  });
  await new Promise<void>((resolve) => socket.bind(0, '127.0.0.1', resolve));
  return `127.0.0.1:${socket.address().port}`;
}

const numbers = (...values: readonly number[]): Buffer => {
  const bytes = Buffer.alloc(values.length * 2);
  for (const [index, value] of values.entries()) bytes.writeUInt16BE(value, index * 2);
  return bytes;
};

/** A record whose name is a pointer to the question's. @param length what it says of its data */
const record = (type = 1, data = Buffer.from([10, 0, 0, 1]), length = data.length): Buffer =>
  Buffer.concat([numbers(0xc00c, type, 1, 0, 5, length), data]);

/** An answer with these bytes behind the question. @param counts of answers, authorities and others */
function answerOf(question: Buffer, code: number, counts: readonly [number, number?, number?], rest: Buffer[]): Buffer {
  const whole = Buffer.concat([question, ...rest]);
  whole.writeUInt16BE(0x8180 | code, 2);
  for (const [index, count = 0] of counts.entries()) whole.writeUInt16BE(count, 6 + 2 * index);
  return whole;
}

/** The answer with this many addresses. */
const reply = (question: Buffer, code: number, answers: number): Buffer =>
  answerOf(question, code, [answers], Array<Buffer>(answers).fill(record()));
const otherId = (answer: Buffer): Buffer => {
  const other = Buffer.from(answer);
  other.writeUInt16BE(other.readUInt16BE(0) ^ 1, 0);
  return other;
};
const upper = (answer: Buffer): Buffer =>
  Buffer.from(answer.toString('latin1').replace('cluster', 'CLUSTER'), 'latin1');

test('encodes a query as in RFC 1035', () => {
  expect(dnsQuestion(0x1234, 'a.bc.', 'AAAA').toString('hex')).toBe('123401000001000000000000016102626300001c0001');
});

test.each([
  ['a record is healthy', (q: Buffer) => [reply(q, 0, 2)], true, 'NOERROR, 2 records of type A'],
  [
    'a name in another case is the same name',
    (q: Buffer) => [upper(reply(q, 0, 1))],
    true,
    'NOERROR, 1 record of type A',
  ],
  ['no record is not', (q: Buffer) => [reply(q, 0, 0)], false, 'NOERROR, 0 records of type A'],
  ['an unknown name is not', (q: Buffer) => [reply(q, 3, 0)], false, 'NXDOMAIN, 0 records of type A'],
  ['a server that cannot is not', (q: Buffer) => [reply(q, 2, 0)], false, 'SERVFAIL, 0 records of type A'],
  [
    'ignores an answer to another question',
    (q: Buffer) => [otherId(reply(q, 0, 1)), reply(q, 3, 0)],
    false,
    'NXDOMAIN, 0 records of type A',
  ],
  ['an echo is no answer', (q: Buffer) => [q], false, 'no answer within 150 ms'],
  ['half a header is no answer', (q: Buffer) => [q.subarray(0, 5)], false, 'no answer within 150 ms'],
  ['silence is not', () => [], false, 'no answer within 150 ms'],
] as const)('%s', async (_title, answer, healthy, seen) => {
  const dns = await serve(answer);
  expect(await tryDns({ dns, query: 'kubernetes.default.svc.cluster.local', type: 'A' }, 150)).toEqual({
    healthy,
    seen,
  });
});

const question = dnsQuestion(1, 'a.bc', 'A');
const nameAt = 12;
const alias = Buffer.from([1, 0x78, 0]);
const labels = (count: number): Buffer =>
  Buffer.alloc(count * 64, Buffer.concat([Buffer.from([63]), Buffer.alloc(63, 0x61)]));
const named = (name: Buffer): Buffer => Buffer.concat([name, record().subarray(2)]);
/** Where the first record begins. */
const here = question.length;

test.each([
  ['an address', [1], [record()], 1],
  ['an alias and the address of its target', [2], [record(5, alias), named(alias)], 1],
  ['an alias alone', [1], [record(5, alias)], 0],
  ['an address of the other family', [1], [record(28, Buffer.alloc(16))], 0],
  ['records of each section', [1, 1, 1], [record(), record(2, alias), record(41, Buffer.alloc(9))], 1],
  ['an address that is no answer', [0, 0, 1], [record()], 0],
  [
    'a name of 255 bytes',
    [1],
    [named(Buffer.concat([labels(3), Buffer.from([61]), Buffer.alloc(61, 0x62), Buffer.from([0])]))],
    1,
  ],
  ['a record without data, of another type', [1], [record(16, Buffer.alloc(0))], 0],
] as const)('reads %s', (_title, counts, records, expected) => {
  expect(readDnsAnswer(answerOf(question, 0, counts, [...records]), question)).toEqual({
    code: 'NOERROR',
    records: expected,
  });
});

test.each([
  [
    'a record that is 65,535 bytes long',
    [1],
    [record(1, Buffer.from([10, 0, 0, 1]), 0xffff)],
    'record 1 has 65535 bytes, and 4 follow',
  ],
  ['a record one byte too long', [1], [record(16, Buffer.alloc(3), 4)], 'record 1 has 4 bytes, and 3 follow'],
  ['an address of 3 bytes', [1], [record(1, Buffer.alloc(3))], 'record 1 has 3 bytes, and an address has 4'],
  ['an address of 0 bytes', [1], [record(1, Buffer.alloc(0))], 'record 1 has 0 bytes, and an address has 4'],
  ['an IPv6 address of 4 bytes', [1], [record(28)], 'record 1 has 4 bytes, and an address has 16'],
  ['no record where one is counted', [1], [], 'the name of record 1 is invalid'],
  ['65,535 records in one', [0xffff], [record()], 'the name of record 2 is invalid'],
  ['fewer records of the last section than counted', [1, 0, 1], [record()], 'the name of record 2 is invalid'],
  ['more records than counted', [1], [record(), record()], '16 bytes follow its last record'],
  ['bytes behind the end', [1], [record(), Buffer.from([0])], '1 bytes follow its last record'],
  ['a name without fields', [1], [numbers(0xc00c)], 'it ends in record 1 of 1'],
  ['fields that end early', [1], [record().subarray(0, 11)], 'it ends in record 1 of 1'],
  ['half a pointer', [1], [Buffer.from([0xc0])], 'the name of record 1 is invalid'],
  ['a name that points to itself', [1], [named(numbers(0xc000 | here))], 'the name of record 1 is invalid'],
  [
    'two names that point to each other',
    [1],
    [named(numbers(0xc000 | (here + 2), 0xc000 | here))],
    'the name of record 1 is invalid',
  ],
  [
    'a label before a pointer to it',
    [1],
    [named(Buffer.concat([Buffer.from([1, 0x61]), numbers(0xc000 | here)]))],
    'the name of record 1 is invalid',
  ],
  ['a pointer beyond the message', [1], [named(numbers(0xffff))], 'the name of record 1 is invalid'],
  ['a pointer into the header', [1], [named(numbers(0xc000 | (nameAt - 1)))], 'the name of record 1 is invalid'],
  ['a label of a reserved kind', [1], [named(Buffer.from([0x80, 0]))], 'the name of record 1 is invalid'],
  ['a label longer than the message', [1], [Buffer.from([63, 0x61])], 'the name of record 1 is invalid'],
  [
    'a name of 256 bytes',
    [1],
    [named(Buffer.concat([labels(3), Buffer.from([62]), Buffer.alloc(62, 0x62), Buffer.from([0])]))],
    'the name of record 1 is invalid',
  ],
  [
    'an alias that is longer than its record',
    [1],
    [record(5, alias, 2), Buffer.alloc(0)],
    'the alias in record 1 is invalid',
  ],
  [
    'an alias that is shorter than its record',
    [1],
    [record(5, Buffer.concat([alias, alias]))],
    'the alias in record 1 is invalid',
  ],
] as const)('refuses %s', (_title, counts, records, malformed) => {
  expect(readDnsAnswer(answerOf(question, 0, counts, [...records]), question)).toEqual({ malformed });
});

test('a malformed answer is not healthy, and says why', async () => {
  const dns = await serve((q) => [answerOf(q, 0, [1], [record(1, Buffer.alloc(4), 0xffff)])]);
  expect(await tryDns({ dns, query: 'a', type: 'A' }, 5000)).toEqual({
    healthy: false,
    seen: 'malformed answer: record 1 has 65535 bytes, and 4 follow',
  });
});

test('reports a closed port at once', async () => {
  const dns = await serve(() => []);
  server?.close();
  server = undefined;
  expect(await tryDns({ dns, query: 'a', type: 'A' }, 5000)).toMatchObject({
    healthy: false,
    seen: expect.stringContaining('ECONNREFUSED'),
  });
});

test('an answer that is cut is not whole, wherever it is', () => {
  const good = answerOf(question, 0, [2, 1], [record(5, alias), named(alias), record(2, alias)]);
  for (let end = question.length; end < good.length; end++)
    expect(readDnsAnswer(good.subarray(0, end), question)).toHaveProperty('malformed');
});

test('never throws, whatever bytes an answer has', () => {
  for (let length = 0; length < 64; length++)
    expect(readDnsAnswer(Buffer.alloc(length, 0xff), question)).toBeUndefined();
  const good = answerOf(question, 0, [2, 1], [record(5, alias), named(alias), record(2, alias)]);
  const place = fc.record({ at: fc.nat(good.length - 1), byte: fc.nat(255) });
  const holds = (changes: readonly { at: number; byte: number }[], end: number): void => {
    const changed = Buffer.from(good);
    for (const { at, byte } of changes) changed[at] = byte;
    expect(() => readDnsAnswer(changed.subarray(0, end), question)).not.toThrow();
  };
  fc.assert(
    fc.property(fc.array(place, { maxLength: 3 }), fc.integer({ min: 1, max: good.length }), holds),
    runs(1000),
  );
});
