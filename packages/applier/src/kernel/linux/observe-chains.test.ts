import { type TableName, tableNames } from '@sluice/netfilter';
import { runs } from '@sluice/testing';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { KernelError } from '../../ports/failure.ts';
import type { Run, ToolResult } from '../command.ts';
import { LinuxKernel } from './linux.ts';
import { procTunables } from '../sysctl.ts';
import type { Tools } from '../tools.ts';

const ipv4 = { restore: '/iptables-restore', save: '/iptables-save', iptables: '/iptables', version: '1.8.11' };
const tools: Tools = { backend: 'legacy', families: { ipv4 } };
const names = ['KUBE-A', 'KUBE-B', 'KUBE-C', 'KUBE-D', 'INPUT'];
const oneName = fc.constantFrom(...names);
const table = fc.dictionary(oneName, fc.nat(3), { noNullPrototype: true });
const asked = fc.uniqueArray(oneName);

/** What each run of the tool does about a missing chain, or that it is killed. */
const oneEnd = fc.constantFrom('says it', 'says nothing', 'is killed');

const missing = 'iptables: No chain/target/match by that name.';
const refused = (stderr: string, lines: readonly string[] = []): ToolResult => ({
  exitCode: 1,
  stdout: lines.join(''),
  stderr,
  why: stderr,
});

/** A tool that lists chains. @param held the number of rules of each */
function toolOf(held: Readonly<Record<TableName, Readonly<Record<string, number>>>>, ends: string[]): Run {
  const listed = (at: TableName, chain: string): string[] | undefined => {
    const count = held[at][chain];
    const rules = Array.from({ length: count ?? 0 }, (_, port) => `-A ${chain} -m mark --mark ${at.length}${port}\n`);
    return count === undefined ? undefined : [chain === 'INPUT' ? `-P ${chain} ACCEPT\n` : `-N ${chain}\n`, ...rules];
  };
  return async ({ file, args, input }) => {
    const printed: string[] = [];
    const end = file === ipv4.restore ? ends.shift() : undefined;
    const commands = file === ipv4.restore ? (input as string).split('\n') : [`*${args[3]}`, `-S ${args[5]}`];
    let at: TableName = 'filter';
    for (const line of commands) {
      if (line.startsWith('*')) at = line.slice(1) as TableName;
      const lines = line.startsWith('-S ') ? listed(at, line.slice(3)) : [];
      if (!lines) return refused(end === 'says nothing' ? 'iptables-restore: line 2 failed' : missing, printed);
      printed.push(...lines);
    }
    if (end !== 'is killed') return { exitCode: 0, stdout: printed.join(''), stderr: '', why: '' };
    const stdout = printed.slice(0, -1).join('');
    return { exitCode: undefined, stdout, stderr: '', why: 'SIGKILL', lost: 'killed' };
  };
}

test('chains of two tables are read as the kernel has them, or the tool failed', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.record({ filter: table, nat: table }),
      fc.record({ filter: asked, nat: asked }),
      fc.array(oneEnd, { maxLength: 3 }),
      async (held, chains, ends) => {
        const read = (some: string[]): ReturnType<LinuxKernel['observeChains']> =>
          new LinuxKernel(tools, toolOf(held, some), procTunables).observeChains('ipv4', chains);
        const all = await read([]);
        for (const at of tableNames)
          expect(new Map([...all[at]].map(([name, rules]) => [name, rules.length]))).toEqual(
            new Map(chains[at].flatMap((name) => (name in held[at] ? [[name, held[at][name]]] : []))),
          );
        const failure = await read([...ends]).then(
          (found) => {
            expect(found).toEqual(all);
          },
          (error: unknown) => error,
        );
        if (failure === undefined) return;
        expect(failure).toBeInstanceOf(KernelError);
        expect(ends).toContain('is killed');
      },
    ),
    runs(300),
  );
});
