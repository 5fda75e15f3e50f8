import { expect, test } from 'vitest';
import { knowsBpf } from './knows-bpf.ts';
import type { ToolResult, Run } from './command.ts';
import type { Tools } from './tools.ts';

/** The words of iptables 1.8.9 on a kernel with and without the match, and of one whose extension is not installed. */

const tools = (name: string) => ({ iptables: `/x/${name}`, save: '/x/save', restore: '/x/restore', version: '1.8.9' });
const both: Tools = { backend: 'nft', families: { ipv4: tools('iptables'), ipv6: tools('ip6tables') } };
const failed = (exitCode: number | undefined, stderr: string): ToolResult => ({
  exitCode,
  stdout: '',
  stderr,
  why: stderr,
});
const badRule = 'iptables: Bad rule (does a matching rule exist in that chain?).\n';

test.each([
  ['the rule is not found', failed(1, badRule), true],
  [
    'nf_tables warns',
    failed(1, `Warning: Extension bpf revision 0 not supported, missing kernel module?\n${badRule}`),
    false,
  ],
  ['legacy tables find no match', failed(1, 'iptables: No chain/target/match by that name.\n'), false],
  ['the extension is not installed', failed(2, "iptables v1.8.9 (nf_tables): Couldn't load match `bpf'\n"), false],
  ['another program holds the lock', failed(4, 'Another app is currently holding the xtables lock.\n'), true],
  ['the tool was killed', failed(undefined, ''), true],
])('%s', async (_title, said, expected) => {
  expect(await knowsBpf(both, async () => said)).toBe(expected);
});

test('requires it in both families', async () => {
  const asked: string[] = [];
  const run: Run = async ({ file, args }) => {
    asked.push(args.at(args.indexOf('--bytecode') + 1)?.split(',')[0] ?? '');
    return file.endsWith('ip6tables') ? failed(1, 'No chain/target/match by that name') : failed(1, badRule);
  };
  expect(await knowsBpf(both, run)).toBe(false);
  expect(asked).toEqual(['6', '18']);
});
