import { expect, test } from 'vitest';
import type { Flow } from '../rollout/ports.ts';
import { forgetFlows } from './conntrack.ts';
import type { Command, Ran } from './run.ts';

/** As conntrack 1.4.7 prints them. */
const entry = (client: string, asked: string, answers: string): string => {
  const [src, sport] = client.split('/');
  const [dst, dport] = asked.split('/');
  const [from, fromPort] = answers.split('/');
  return `udp      17 29 src=${src} dst=${dst} sport=${sport} dport=${dport} src=${from} dst=${src} sport=${fromPort} dport=${sport} [ASSURED] mark=0 use=1\n`;
};
const stale = entry('10.1.1.1/4000', '10.96.0.10/53', '10.244.1.5/5353');
const others = [
  entry('10.1.1.1/4001', '10.96.0.10/53', '10.244.2.6/5353'),
  entry('10.1.1.1/4002', '10.96.0.11/53', '10.244.1.5/5353'),
  entry('10.1.1.1/4003', '203.0.113.7/30053', '203.0.113.7/30053'),
].join('');
const flow = (address: string | undefined, port: number, endpoint: string | undefined): Flow => ({
  family: 'ipv4',
  protocol: 'udp',
  address,
  port,
  endpoint,
});

interface Seen {
  readonly count: number;
  readonly commands: readonly Command[];
}
async function forget(table: string, flows: readonly Flow[], knowsBatches = true): Promise<Seen> {
  const commands: Command[] = [];
  const run = async (command: Command): Promise<Ran> => {
    commands.push(command);
    const exitCode = command.args[0] === '-R' && !knowsBatches ? 2 : 0;
    return { exitCode, stdout: command.args[0] === '-L' ? table : '', stderr: '', why: 'unknown option' };
  };
  const local = { ipv4: ['192.0.2.11'], ipv6: [] };
  return { count: await forgetFlows(flows, '/usr/sbin/conntrack', local, run), commands };
}
const batchOf = ({ commands }: Seen): string | undefined => {
  const input = commands.find(({ args }) => args[0] === '-R')?.input;
  return typeof input === 'string' ? input : undefined;
};

const gone = flow('10.96.0.10', 53, '10.244.1.5:5353');
const line = '-D -f ipv4 -p udp --orig-src 10.1.1.1 --orig-dst 10.96.0.10 --orig-port-src 4000 --orig-port-dst 53\n';

test('only the connection of the endpoint that went, to the Service that it served, is forgotten', async () => {
  const seen = await forget(stale + others, [gone]);
  expect(batchOf(seen)).toBe(line);
  expect(seen.commands).toHaveLength(2);
});

test('of TCP, only a connection that nobody has answered is looked for, and forgotten as long as that is so', async () => {
  const pending = stale.replace('udp      17 29', 'tcp      6 119 SYN_SENT');
  const seen = await forget(pending + others, [{ ...gone, protocol: 'tcp' }]);
  expect(seen.commands[0]?.args.join(' ')).toBe('-L -f ipv4 -p tcp --state SYN_SENT');
  expect(batchOf(seen)).toBe(line.replace('-p udp', '-p tcp --state SYN_SENT'));
});

test('nothing to forget costs one look, and no flow none at all', async () => {
  expect((await forget(others, [gone])).commands).toHaveLength(1);
  expect((await forget(others, [])).commands).toHaveLength(0);
});

test('a node port belongs to the addresses of the machine, and to nobody else on the way through it', async () => {
  const mine = entry('10.1.1.1/4004', '192.0.2.11/30053', '192.0.2.11/30053');
  const seen = await forget(mine + others, [flow(undefined, 30053, undefined)]);
  expect(batchOf(seen)).toContain('--orig-dst 192.0.2.11');
  expect(seen.count).toBe(1);
});

test('connections that no rule translated are told from those that one did', async () => {
  const waiting = entry('10.1.1.1/4005', '10.96.0.10/53', '10.96.0.10/53');
  const seen = await forget(stale + waiting, [flow('10.96.0.10', 53, undefined)]);
  expect(batchOf(seen)).toBe(line.replace('4000', '4005'));
});

test('a tool that takes no batch is started for a few connections, and for many not at all', async () => {
  expect((await forget(stale + others, [gone], false)).commands.at(-1)?.args.join(' ')).toBe(line.trimEnd());
  const { table, flows } = apart(17);
  await expect(forget(table, flows, false)).rejects.toThrow('unknown option');
});

/** Connections to as many Services. */
function apart(length: number): { readonly table: string; readonly flows: readonly Flow[] } {
  const addresses = Array.from({ length }, (_, n) => `10.97.${n >> 8}.${n & 255}`);
  const table = addresses.map((address) => entry('10.1.1.2/4000', `${address}/53`, '10.244.1.5/5353')).join('');
  return { table, flows: addresses.map((address) => flow(address, 53, '10.244.1.5:5353')) };
}

test('many connections of UDP to one endpoint are forgotten with one walk over the table', async () => {
  const many = Array.from({ length: 600 }, (_, n) => entry(`10.1.1.2/${n + 1}`, '10.96.0.10/53', '10.244.1.5/5353'));
  const seen = await forget(many.join('') + others, [gone]);
  expect(seen.count).toBe(600);
  expect(batchOf(seen)).toBe(
    '-D -f ipv4 -p udp --orig-dst 10.96.0.10 --orig-port-dst 53 --reply-src 10.244.1.5 --reply-port-src 5353\n',
  );
});

test('more connections than the bound are left to time out', async () => {
  const { table, flows } = apart(600);
  const seen = await forget(table, flows);
  expect(seen.count).toBe(600);
  expect(batchOf(seen)?.split('\n')).toHaveLength(513);
});
