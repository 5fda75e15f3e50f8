/**
 * The endpoints of a pod: TCP 8080 answers each line with the pod's name, UDP 5353 each datagram. Runs in the pod's namespaces and
 * imports nothing from the workspace, so that it starts at once. `node server.ts NAME`
 */
import { createSocket } from 'node:dgram';
import { createServer } from 'node:net';

const name = process.argv[2] ?? '';

createServer((socket) => {
  socket.on('error', () => socket.destroy());
  socket.on('data', () => socket.write(`${name}\n`));
}).listen(8080, '::');

const udp = createSocket({ type: 'udp6', ipv6Only: false });
udp.on('message', (_text, peer) => udp.send(name, peer.port, peer.address));
udp.bind(5353, '::');
