import type { Server } from 'node:net';
import { Stopped } from '../../failure/failure.ts';

/**
 * Lets a server listen.
 * @param address `127.0.0.1:9780`, `[::1]:9780`
 * @param what it serves, for messages
 * @param option that chooses the address
 * @throws Stopped with `LISTEN_FAILED` when the address cannot be listened on
 */
export function listening<T extends Server>(server: T, address: string, what: string, option: string): Promise<T> {
  const colon = address.lastIndexOf(':');
  const host = address.slice(0, colon).replaceAll(/[[\]]/g, '');
  const failed = (why: string): Stopped =>
    new Stopped({
      code: 'LISTEN_FAILED',
      level: 'error',
      message: `Cannot serve ${what} on ${address}: ${why}`,
      hint: `Choose another address or port with ${option}`,
    });
  return new Promise((resolve, reject) => {
    server.once('error', (error) => reject(failed(error.message)));
    server.listen(Number(address.slice(colon + 1)), host, () => resolve(server));
  });
}
