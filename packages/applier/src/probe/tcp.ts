import { connect } from 'node:net';
import { hostAndPort, type ProbeAnswer } from './answer.ts';

/** Healthy: the connection is accepted. */
export function tryTcp(address: string, timeoutMs: number): Promise<ProbeAnswer> {
  const { promise, resolve } = Promise.withResolvers<ProbeAnswer>();
  const socket = connect(hostAndPort(address));
  socket.setTimeout(timeoutMs, () => socket.destroy(new Error(`no answer within ${timeoutMs} ms`)));
  socket.on('connect', () => {
    resolve({ healthy: true, seen: 'connected' });
    socket.destroy();
  });
  socket.on('error', (error) => resolve({ healthy: false, seen: error.message }));
  return promise;
}
