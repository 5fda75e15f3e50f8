import { createServer, type RequestListener, type Server } from 'node:http';
import type { ListenOptions } from 'node:net';
import { limits, serverTimes } from '../../limits.ts';
import type { Callers } from './callers.ts';

/**
 * Opens a port for HTTP. Its clients are bound by `serverTimes`, and share the limit of `callers` with those of its other ports.
 * @throws when it cannot be opened, for example while another process has it
 */
export async function openPort(where: ListenOptions, callers: Callers, answer: RequestListener): Promise<Server> {
  const server = createServer(serverTimes, (request, response) => {
    callers.ask(request.socket, response);
    answer(request, response);
  });
  server.timeout = limits.clientMs;
  server.on('connection', (socket) => callers.come(socket));
  const { promise, resolve, reject } = Promise.withResolvers<Server>();
  // Stays registered: an unhandled error would end the process.
  server.on('error', reject);
  server.listen(where, () => resolve(server));
  return promise;
}

/** Closes it and its connections. */
export function closePort(server: Server): void {
  server.close();
  server.closeAllConnections();
}
