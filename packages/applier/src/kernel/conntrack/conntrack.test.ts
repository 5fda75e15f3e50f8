import { expect, test } from 'vitest';
import type { TrackedFlow } from '../../ports/kernel.ts';
import { forgetFlows, readTrackedPaths } from './conntrack.ts';
import type { Command, ToolResult } from '../command.ts';

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
const flow = (address: string | undefined, port: number, endpoint: string | undefined): TrackedFlow => ({
  family: 'ipv4',
  protocol: 'udp',
  address,
  port,
  endpoint,
});

/** The entries that these options of `conntrack -D` select. */
function matching(table: string, args: readonly string[]): string {
  const names = { '--orig-dst': [' dst=', 0], '--orig-port-dst': [' dport=', 0] } as const;
  const replies = { '--reply-src': [' src=', 1], '--reply-port-src': [' sport=', 1] } as const;
  const wanted = Object.entries({ ...names, ...replies }).flatMap(([option, [name, direction]]) => {
    const at = args.indexOf(option);
    return at < 0 ? [] : [{ name, direction, value: args[at + 1] }];
  });
  const fits = (line: string): boolean =>
    wanted.every(({ value }) => line.includes(`=${value} `)) &&
    wanted.every(({ name, direction, value }) => line.split(name)[direction + 1]?.split(' ')[0] === value);
  return table
    .split(/(?<=\n)/)
    .filter(fits)
    .join('');
}

interface Seen {
  readonly count: number;
  readonly commands: readonly Command[];
  /** What was forgotten, command by command. */
  readonly forgotten: readonly string[];
}
/** @param partBytes how much of the table comes at a time */
async function forget(table: string, flows: readonly TrackedFlow[], partBytes = 1000): Promise<Seen> {
  const commands: Command[] = [];
  const run = async (command: Command): Promise<ToolResult> => {
    commands.push(command);
    const found = command.args[0] === '-L' ? table : matching(table, command.args);
    for (let at = 0; at < found.length; at += partBytes) command.onOutput?.(found.slice(at, at + partBytes));
    const count = found.split('\n').length - 1;
    const stderr = `conntrack v1.4.7 (conntrack-tools): ${count} flow entries have been ${command.args[0] === '-L' ? 'shown' : 'deleted'}.\n`;
    return { exitCode: count > 0 ? 0 : 1, stdout: '', stderr, why: '' };
  };
  const local = { ipv4: ['192.0.2.11'], ipv6: [] };
  const count = await forgetFlows(flows, '/usr/sbin/conntrack', local, run);
  const forgotten = commands.filter(({ args }) => args[0] === '-D').map(({ args }) => args.join(' '));
  return { count, commands, forgotten };
}

const gone = flow('10.96.0.10', 53, '10.244.1.5:5353');
const line = '-D -f ipv4 -p udp --orig-dst 10.96.0.10 --orig-port-dst 53 --reply-src 10.244.1.5 --reply-port-src 5353';

/** Of no connection: with it flows are listed first. */
const idle = flow('10.96.0.99', 53, '10.244.1.99:5353');

test.each([1, 7, 1000])(
  'only connections of the endpoint that went, to the Service that it served, are forgotten (in parts of %i)',
  async (part) => {
    const seen = await forget(stale + others, [gone, idle], part);
    expect(seen).toMatchObject({ count: 1, forgotten: [line] });
    expect(seen.commands).toHaveLength(2);
  },
);

test('forgets a single flow without a list', async () => {
  expect(await forget(stale + others, [gone])).toMatchObject({ count: 1, forgotten: [line], commands: [{}] });
  expect(await forget(others, [gone])).toMatchObject({ count: 0, forgotten: [line], commands: [{}] });
});

test('forgets TCP connections only while they have no answer', async () => {
  const pending = stale.replace('udp      17 29', 'tcp      6 119 SYN_SENT');
  const ofTcp = [gone, idle].map((one): TrackedFlow => ({ ...one, protocol: 'tcp' }));
  const [listed, single] = [await forget(pending + others, ofTcp), await forget(pending + others, ofTcp.slice(0, 1))];
  expect(listed.commands[0]?.args.join(' ')).toBe('-L -f ipv4 -p tcp --state SYN_SENT');
  for (const { forgotten } of [listed, single])
    expect(forgotten).toEqual([line.replace('-p udp', '-p tcp --state SYN_SENT')]);
});

test('lists connections once when none match, and never without flows', async () => {
  expect((await forget(others, [gone, idle])).commands).toHaveLength(1);
  expect((await forget(others, [])).commands).toHaveLength(0);
});

test("matches a node port only at the machine's own addresses", async () => {
  const mine = entry('10.1.1.1/4004', '192.0.2.11/30053', '192.0.2.11/30053');
  const seen = await forget(mine + others, [flow(undefined, 30053, undefined)]);
  expect(seen.forgotten).toEqual([expect.stringContaining('--orig-dst 192.0.2.11')]);
  expect(seen.count).toBe(1);
});

test('distinguishes translated from untranslated connections', async () => {
  const waiting = entry('10.1.1.1/4005', '10.96.0.10/53', '10.96.0.10/53');
  const untranslated = flow('10.96.0.10', 53, undefined);
  for (const flows of [[untranslated], [untranslated, idle]])
    expect(await forget(stale + waiting, flows)).toMatchObject({
      count: 1,
      forgotten: [line.replace('10.244.1.5 --reply-port-src 5353', '10.96.0.10 --reply-port-src 53')],
    });
});

/** Connections to as many Services. */
function apart(length: number): { readonly table: string; readonly flows: readonly TrackedFlow[] } {
  const addresses = Array.from({ length }, (_, n) => `10.97.${n >> 8}.${n & 255}`);
  const table = addresses.map((address) => entry('10.1.1.2/4000', `${address}/53`, '10.244.1.5/5353')).join('');
  return { table, flows: addresses.map((address) => flow(address, 53, '10.244.1.5:5353')) };
}

test('forgets many connections of one path with one walk over the table', async () => {
  const many = Array.from({ length: 5000 }, (_, n) => entry(`10.1.1.2/${n + 1}`, '10.96.0.10/53', '10.244.1.5/5353'));
  expect(await forget(many.join('') + others, [gone, idle])).toMatchObject({ count: 5000, forgotten: [line] });
});

test('forgets those of all Services to one endpoint with one walk, unless some stay', async () => {
  const { table, flows } = apart(600);
  expect(await forget(table, flows)).toMatchObject({
    count: 600,
    forgotten: ['-D -f ipv4 -p udp --reply-src 10.244.1.5 --reply-port-src 5353'],
  });
  const seen = await forget(table + others, flows);
  expect(seen.forgotten).toHaveLength(600);
});

test('forgets the paths with the most connections first', async () => {
  const busy = [1, 2, 3].map((n) => entry(`10.1.1.2/${n}`, '10.96.0.12/53', '10.244.1.7/5353')).join('');
  const seen = await forget(stale + busy, [gone, flow('10.96.0.12', 53, '10.244.1.7:5353')]);
  expect(seen.forgotten.map((one) => / --reply-src (\S+)/.exec(one)?.[1])).toEqual(['10.244.1.7', '10.244.1.5']);
});

test('compares IPv6 addresses in canonical form', async () => {
  const v6 = entry('fd00::1/4000', 'fd00:96::10/53', 'fd00:10:0:0::5/5353');
  const wanted: TrackedFlow = {
    family: 'ipv6',
    protocol: 'udp',
    address: 'fd00:96::10',
    port: 53,
    endpoint: '[fd00:10::5]:5353',
  };
  expect((await forget(v6, [wanted, { ...wanted, port: 54 }])).forgotten).toEqual([
    '-D -f ipv6 -p udp --orig-dst fd00:96::10 --orig-port-dst 53 --reply-src fd00:10::5 --reply-port-src 5353',
  ]);
});

test.each([
  ['is no failure where it has timed out meanwhile', '0 flow entries have been deleted.', 1],
  ['is one otherwise', 'Operation failed: sorry', 'Cannot run /usr/sbin/conntrack'],
] as const)('treats a command that forgets nothing as %s', async (_title, words, ends) => {
  const run = async ({ args, onOutput }: Command): Promise<ToolResult> => {
    if (args[0] === '-L') onOutput?.(stale);
    const stderr = `conntrack v1.4.7 (conntrack-tools): ${words}`;
    return { exitCode: args[0] === '-L' ? 0 : 1, stdout: '', stderr, why: 'exit code 1' };
  };
  const ended = forgetFlows([gone, idle], '/usr/sbin/conntrack', { ipv4: [], ipv6: [] }, run);
  expect(await ended.catch((error: Error) => error.message.split(' -D')[0])).toBe(ends);
});

test('reads each path of translated connections once, in the families that are asked', async () => {
  const asked: string[] = [];
  const table = `${stale}${stale}${others}udp      17 29 src=10.1.1.1 dst=10.9.9.9 sport=53 dport=5 [UNREPLIED] src=10.244.9.9 dst=10.1.1.1 sport=5 dport=53 mark=0 use=1\nicmp     1 29 src=10.1.1.1 dst=10.9.9.9 type=8 code=0 id=1 src=10.9.9.9 dst=10.1.1.1 type=0 code=0 id=1 mark=0 use=1\n`;
  const run = async ({ args, onOutput }: Command): Promise<ToolResult> => {
    asked.push(args.join(' '));
    onOutput?.(table);
    return { exitCode: 0, stdout: '', stderr: '', why: '' };
  };
  const paths = await readTrackedPaths('/usr/sbin/conntrack', run, ['ipv4']);
  expect(asked).toEqual(['-L -f ipv4 -p udp']);
  expect(paths.map(({ family, address, port, endpoint }) => `${family} ${address} ${port} ${endpoint}`)).toEqual([
    'ipv4 10.96.0.10 53 10.244.1.5:5353',
    'ipv4 10.96.0.10 53 10.244.2.6:5353',
    'ipv4 10.96.0.11 53 10.244.1.5:5353',
    'ipv4 10.9.9.9 5 10.244.9.9:5',
  ]);
  const frontends = new Set(['203.0.113.7:30053', '10.96.0.99:53']);
  const bare = (await readTrackedPaths('/usr/sbin/conntrack', run, ['ipv4'], frontends)).filter(
    ({ address, endpoint }) => endpoint.startsWith(`${address}:`),
  );
  expect(bare.map(({ endpoint }) => endpoint)).toEqual(['203.0.113.7:30053']);
});
