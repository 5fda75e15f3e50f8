// @module-tag test
import { writeFileSync } from 'node:fs';
import { beforeEach, describe, expect, test } from 'vitest';
import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { node, withNode } from './node-of-test.ts';
import { needBackend } from './privileges.ts';

/** Foreign redirections, which translate as Services do: their packets must be treated as without Sluice. */

withNode();

/** Asks the redirected port which client address its server sees. */
const program = (address: string): string => `
  const { connect, createServer } = require('node:net');
  const server = createServer((socket) => socket.end(socket.remoteAddress)).listen(8080, '${address}', () => {
    const socket = connect({ host: '${address}', port: 80, timeout: 3000 });
    socket.on('data', (text) => process.stdout.write(text));
    socket.on('timeout', () => process.exit(0));
    socket.on('error', (error) => { process.stdout.write(error.code); process.exit(0); });
    socket.on('close', () => process.exit(0));
  });
`;

describe.each(['nft', 'legacy'] as const)('a redirection on loopback, on %s', (backend) => {
  beforeEach((context) => needBackend(context, backend));

  test.each([
    ['iptables', '127.0.0.1'],
    ['ip6tables', '::1'],
  ])('%s: the server still sees %s, though the machine has more addresses', async (tool, address) => {
    await node.tool([
      'sh',
      '-c',
      'ip link add veth0 type veth peer name veth1 && ip link set veth0 up && ip addr add 192.0.2.5/24 dev veth0 && ip addr add fd00:2::5/64 dev veth0 nodad',
    ]);
    const redirect = ['OUTPUT', '-o', 'lo', '-p', 'tcp', '--dport', '80', '-j', 'REDIRECT', '--to-ports', '8080'];
    await node.tool([`${tool}-${backend}`, '-t', 'nat', '-A', ...redirect]);
    node.writeConfig(backend);
    writeBundle(`${node.directory}/rendered`, sampleBundle({ families: ['ipv4', 'ipv6'] }));
    expect(await node.apply()).toMatchObject({ exitCode: 0 });
    expect(await node.rules(backend)).toContain(' -m bpf ');
    writeFileSync(`${node.directory}/who.cjs`, program(address));
    expect(await node.tool([process.execPath, `${node.directory}/who.cjs`])).toBe(address);
  });
});
