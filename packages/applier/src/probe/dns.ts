import { randomInt } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { isIPv6 } from 'node:net';
import { dnsQuestion, readDnsAnswer, type RecordType } from './dns-message.ts';
import { hostAndPort, type ProbeAnswer } from './answer.ts';

/** A query to a name server over UDP. */
interface DnsProbe {
  /** `address:port` of the server. */
  readonly dns: string;
  readonly query: string;
  readonly type: RecordType;
}

/**
 * Healthy: the server answers NOERROR with at least one record of the type. Each try has its own socket, and so its own port: for an old one,
 * connection tracking has an entry that leads to the old endpoint.
 */
export function tryDns({ dns, query, type }: DnsProbe, timeoutMs: number): Promise<ProbeAnswer> {
  const { promise, resolve } = Promise.withResolvers<ProbeAnswer>();
  const { host, port } = hostAndPort(dns);
  const socket = createSocket(isIPv6(host) ? 'udp6' : 'udp4');
  const question = dnsQuestion(randomInt(0x10000), query, type);
  const end = (healthy: boolean, seen: string): void => {
    clearTimeout(timer);
    socket.removeAllListeners('message');
    socket.removeAllListeners('error').on('error', () => {});
    socket.close();
    resolve({ healthy, seen });
  };
  const timer = setTimeout(() => end(false, `no answer within ${timeoutMs} ms`), timeoutMs);
  socket.on('error', (error) => end(false, error.message));
  socket.on('message', (message) => {
    const answer = readDnsAnswer(message, question);
    if (!answer) return;
    if ('malformed' in answer) return end(false, `malformed answer: ${answer.malformed}`);
    const records = `${answer.records} record${answer.records === 1 ? '' : 's'}`;
    end(answer.code === 'NOERROR' && answer.records > 0, `${answer.code}, ${records} of type ${type}`);
  });
  // Connected, so that "port unreachable" becomes an error instead of a timeout.
  socket.connect(port, host, () => socket.send(question));
  return promise;
}
