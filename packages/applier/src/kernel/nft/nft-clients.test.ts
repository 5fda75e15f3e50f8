import { expect, test } from 'vitest';
import { limits } from '../../limits.ts';
import type { Command, ToolResult } from '../command.ts';
import { affinityFills, ClientCounter } from './nft-clients.ts';

const head = (size: string): string =>
  `table inet sluice {\n\tmap aff4 {\n\t\ttypeof ip saddr : meta priority\n\t\tsize ${size}\n\t\tflags dynamic,timeout\n`;
const listing = `${head('1024')}\t\telements = { 10.0.0.1 timeout 10m expires 9m : 1:1,\n\t\t\t     10.0.0.2 timeout 10m expires 8m : 1:2 }\n\t}\n}\n`;

/** Runs against a tool that answers like this. */
async function fills(
  answer: (command: Command) => Partial<ToolResult> & { readonly prints?: string },
  hasPrlimit = true,
) {
  const asked: string[] = [];
  const found = await affinityFills({
    nft: '/usr/sbin/nft',
    prlimit: hasPrlimit ? '/usr/bin/prlimit' : undefined,
    run: async (command) => {
      asked.push([command.file, ...command.args].join(' '));
      const { prints = '', ...rest } = command.args.at(-1) === 'aff4' ? answer(command) : { exitCode: 1 };
      command.onOutput?.(prints);
      return { exitCode: 0, stdout: prints, stderr: '', why: '', ...rest };
    },
  });
  return { found, asked };
}

test('counts in parts that end anywhere', () => {
  const counter = new ClientCounter();
  for (let at = 0; at < listing.length; at += 7) counter.take(listing.slice(at, at + 7));
  expect(counter.clients).toBe(2);
});

test('takes the number that nft tells, and lists no client', async () => {
  const { found, asked } = await fills(() => ({ prints: `${head('1024\t# count 900')}\t}\n}\n` }));
  expect(found).toEqual([{ family: 'ipv4', clients: 900, size: 1024 }]);
  expect(asked[0]).toBe('/usr/sbin/nft -n -t list map inet sluice aff4');
  expect(asked.join('\n')).not.toContain('prlimit');
});

test('lists clients within bounded memory where nft tells no number', async () => {
  const { found, asked } = await fills(({ args }) => ({
    prints: args.includes('-t') ? `${head('1024')}\t}\n}\n` : listing,
  }));
  expect(found).toEqual([{ family: 'ipv4', clients: 2, size: 1024 }]);
  expect(asked[1]).toMatch(/^\/usr\/bin\/prlimit --as=\d+ \/usr\/sbin\/nft -n list map inet sluice aff4$/);
});

test('a listing that needs more memory has more clients than fit in it', async () => {
  const { found } = await fills(({ args }) =>
    args.includes('-t')
      ? { prints: `${head('1048576')}\t}\n}\n` }
      : { exitCode: 2, stderr: 'utils.c:38: Memory allocation failure\n' },
  );
  expect(found).toMatchObject([{ family: 'ipv4', size: 1_048_576, isAtLeast: true }]);
  expect(found[0]?.clients).toBeLessThanOrEqual(limits.affinityListBytesMax / limits.affinityClientBytes);
});

test.each<readonly [string, Partial<ToolResult> & { readonly prints?: string }, boolean]>([
  ['a table that is not there', { exitCode: 1, stderr: 'Error: No such file or directory' }, true],
  ['a tool that crashes', { exitCode: undefined, stderr: '' }, true],
  ['no tool that bounds memory', { prints: `${head('1024')}\t}\n}\n` }, false],
])('%s is no fill', async (_title, answer, hasPrlimit) => {
  expect((await fills(() => answer, hasPrlimit)).found).toEqual([]);
});
