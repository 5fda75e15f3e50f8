import { createSocket, type Socket } from 'node:dgram';
import { afterEach, expect, test } from 'vitest';
import { dnsQuestion, readDnsAnswer } from './dns-message.ts';
import { tryDns } from './dns.ts';

let server: Socket | undefined;
afterEach(() => server?.close());

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

/** The question with the header of an answer. */
function reply(question: Buffer, code: number, answers: number): Buffer {
  const message = Buffer.from(question);
  message.writeUInt16BE(0x8180 | code, 2);
  message.writeUInt16BE(answers, 6);
  return message;
}
const otherId = (message: Buffer): Buffer => {
  const other = Buffer.from(message);
  other.writeUInt16BE(other.readUInt16BE(0) ^ 1, 0);
  return other;
};
const upper = (message: Buffer): Buffer =>
  Buffer.from(message.toString('latin1').replace('cluster', 'CLUSTER'), 'latin1');

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

test('reports a closed port at once', async () => {
  const dns = await serve(() => []);
  server?.close();
  server = undefined;
  expect(await tryDns({ dns, query: 'a', type: 'A' }, 5000)).toMatchObject({
    healthy: false,
    seen: expect.stringContaining('ECONNREFUSED'),
  });
});

test('never throws, whatever bytes an answer has', () => {
  const question = dnsQuestion(1, 'a', 'A');
  for (let length = 0; length < 64; length++) {
    expect(readDnsAnswer(Buffer.alloc(length, 0xff), question)).toBeUndefined();
  }
});
