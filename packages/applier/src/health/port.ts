import { createServer, type RequestListener, type Server } from 'node:http';
import type { ListenOptions } from 'node:net';
import { limits, serverTimes } from '../limits.ts';
import type { Callers } from './callers.ts';

/**
 * Opens a port for HTTP. Its clients are held to `serverTimes`, and share the room of `callers` with those of its other ports.
 * @throws when it cannot be opened, as while somebody else has it
 */
export async function openPort(where: ListenOptions, callers: Callers, answer: RequestListener): Promise<Server> {
  const server = createServer(serverTimes, (request, response) => {
    callers.ask(request.socket, response);
    answer(request, response);
  });
  server.timeout = limits.clientMs;
  server.on('connection', (socket) => callers.come(socket));
  const { promise, resolve, reject } = Promise.withResolvers<Server>();
  // For as long as it lives: an error that nobody hears ends the process.
  server.on('error', reject);
  server.listen(where, () => resolve(server));
  return promise;
}

/** Closes it, to those that are connected, too. */
export function closePort(server: Server): void {
  server.close();
  server.closeAllConnections();
}
