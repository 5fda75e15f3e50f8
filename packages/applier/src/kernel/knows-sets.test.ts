import { KernelError } from '../ports/failure.ts';
import { describe, expect, test } from 'vitest';
import { limits } from '../limits.ts';
import { messageOf } from '../message.ts';
import { findSwitch, setsLeft, switchOf } from './linux/find-switch.ts';
import { knowsSets } from './knows-sets.ts';
import type { Command, ToolResult, Run } from './command.ts';
import { detectTools, findTool } from './tools.ts';

/** What is asked of the kernel before a node relies on a dead-man, by tools that say what iptables 1.8.9 and ipset 7.17 say. */

const tools = { iptables: '/x/iptables', save: '/x/save', restore: '/x/restore', version: '1.8.9' };
const good: ToolResult = { exitCode: 0, stdout: '', stderr: '', why: '' };
const failed = (exitCode: number | undefined, stderr: string): ToolResult => ({
  exitCode,
  stdout: '',
  stderr,
  why: stderr,
});
const badRule = failed(1, 'iptables: Bad rule (does a matching rule exist in that chain?).\n');
const noSet = (name: string): ToolResult => failed(2, `iptables v1.8.9 (legacy): Set ${name} doesn't exist.\n`);
const locked = failed(4, 'Another app is currently holding the xtables lock. Stopped waiting after 5s.\n');

/** The sets of a kernel that knows them, with tools that take some time. */
function kernel(left: readonly string[] = [], before: (command: Command) => ToolResult | undefined = () => undefined) {
  const sets = new Set(left);
  const run: Run = async (command) => {
    const [verb = '', name = ''] = command.args;
    await new Promise((resolve) => setImmediate(resolve));
    const said = before(command);
    if (said) return said;
    if (verb === 'list') return { ...good, stdout: [...sets, ''].join('\n') };
    if (verb === 'create') return sets.add(name) && good;
    if (verb === 'destroy') return sets.delete(name) ? good : failed(1, 'The set with the given name does not exist');
    const asked = command.args[command.args.indexOf('--match-set') + 1] ?? '';
    return sets.has(asked) ? badRule : noSet(asked);
  };
  return { sets, run };
}
const asksRule = ({ file }: Command): boolean => file === tools.iptables;

/** Answers, with pauses that take no time. */
async function answer(asked: Promise<boolean>): Promise<boolean | string> {
  return asked.catch((error: unknown) => (error instanceof KernelError ? error.message : String(error)));
}

describe('whether rules may ask sets', () => {
  test('works in concurrent processes, and leaves nothing', async () => {
    const { run, sets } = kernel();
    const whole = Array.from({ length: 20 }, (_, at) =>
      knowsSets(tools, 'ipset', run, at === 0 ? process.pid : 4_000_000 + at),
    );
    expect(new Set(await Promise.all(whole))).toEqual(new Set([true]));
    expect([...sets]).toEqual([]);
  });

  test('retries when another process removes the set', async () => {
    let removed = 0;
    const self = kernel([], (command) => {
      if (asksRule(command) && removed++ < 2) self.sets.clear();
      return undefined;
    });
    expect(await knowsSets(tools, 'ipset', self.run)).toBe(true);
    expect(removed).toBe(3);
  });

  test('uses a valid name, and removes the sets of killed processes', async () => {
    const names: string[] = [];
    const left = ['SLUICE-PROBE', 'SLUICE-PROBE-4194999', 'SLUICE-PROBE-1', 'SLUICE-N', 'OTHER'];
    const { run, sets } = kernel(left, ({ args }) => void (args[0] === 'create' && names.push(args[1] ?? '')));
    await knowsSets(tools, 'ipset', run, 4_194_303);
    expect(names.map(({ length }) => length <= 31)).toEqual([true]);
    expect([...sets]).toEqual(['SLUICE-PROBE-1', 'SLUICE-N', 'OTHER']);
  });

  test.each([
    ['the lock of legacy tools is held', locked],
    ['the tool was killed', failed(undefined, 'it was killed')],
    ['the tool prints an unknown error', failed(1, 'out of cheese')],
  ])('retries while %s', async (_title, said) => {
    let times = 0;
    const { run, sets } = kernel([], (command) => (asksRule(command) && times++ < 2 ? said : undefined));
    expect(await answer(knowsSets(tools, 'ipset', run))).toBe(true);
    expect([...sets]).toEqual([]);
  });

  test.each([
    ['the lock is held and held', asksRule, locked, 'xtables lock'],
    [
      'no set can be made for want of memory',
      isCreate,
      failed(1, 'ipset v7.17: Kernel error received: Cannot allocate memory'),
      'memory',
    ],
  ])('throws when %s', async (_title, which, said, why) => {
    let times = 0;
    const { run } = kernel([], (command) => (which(command) && ++times > 0 ? said : undefined));
    expect(await answer(knowsSets(tools, 'ipset', run))).toContain(why);
    expect(times).toBe(limits.switchQuestionsMax);
  });

  test.each([
    [
      'iptables has no such match',
      asksRule,
      failed(2, "iptables v1.8.9 (nf_tables): Couldn't load match `set':No such file"),
    ],
    [
      'the kernel has no such match',
      asksRule,
      failed(3, 'iptables v1.8.9 (legacy): Kernel module xt_set is not loaded in.'),
    ],
    [
      'nf_tables warns that the kernel has no such match',
      asksRule,
      failed(1, `Warning: Extension set revision 0 not supported, missing kernel module?\n${badRule.stderr}`),
    ],
    ['the kernel has no such sets', isCreate, failed(1, 'ipset v7.17: Kernel error received: set type not supported')],
    ['the kernel has no sets', isCreate, failed(1, 'ipset v7.17: Cannot open session to kernel.')],
  ])('answers no when %s, without a retry', async (_title, which, said) => {
    let times = 0;
    const { run, sets } = kernel([], (command) => (which(command) && ++times > 0 ? said : undefined));
    expect([await knowsSets(tools, 'ipset', run), times, [...sets]]).toEqual([false, 1, []]);
  });
});

function isCreate({ args }: Command): boolean {
  return args[0] === 'create';
}

describe.skipIf(findTool('ipset') === undefined)('where namespaces may be made', () => {
  const isLoad = ({ args }: Command): boolean => args[0] === '--net';
  test.each([
    [
      'the rule is refused by nft',
      failed(4, 'line 2: RULE_APPEND failed (No such file or directory): rule in chain OUTPUT'),
      false,
    ],
    ['the rule is refused by legacy', failed(1, 'iptables-restore: line 3 failed'), false],
    [
      'there is no such match',
      failed(2, "iptables-restore v1.8.9 (legacy): Couldn't load match `set':No such file"),
      false,
    ],
    ['ipset was killed', failed(137, 'Killed'), true],
    ['memory was short', failed(4, 'line 2: RULE_APPEND failed (Cannot allocate memory): rule in chain OUTPUT'), true],
    ['no namespace could be made', failed(1, 'unshare: unshare failed: Operation not permitted'), true],
  ])('uses a load in a namespace, or else asks the node: %s', async (_title, said, isFound) => {
    const { run } = kernel([], (command) => (isLoad(command) ? said : undefined));
    const found = await findSwitch({ backend: 'nft', families: { ipv4: tools } }, run, true);
    expect(found !== undefined).toBe(isFound);
  });
});

describe('a process that finds no switch', () => {
  const isLoad = ({ args }: Command): boolean => args[0] === '--net';
  const refused = failed(1, 'ip6tables-restore: line 3 failed: Bad address');
  const unknown = failed(3, 'iptables v1.8.9 (legacy): Kernel module xt_set is not loaded in.');
  test.skipIf(findTool('ipset') === undefined).each([
    ['goes on where there are no sets, as after a boot', [], good, 'without it'],
    ['goes on beside sets where the node knows them', ['SLUICE-N'], badRule, 'with it'],
    ['does not go on beside sets that may be on', ['SLUICE-N', 'SLUICE-F'], unknown, 'SLUICE-N and SLUICE-F are there'],
  ] as const)('%s', async (_title, sets, said, then) => {
    const { run } = kernel(sets, (command) => (isLoad(command) ? refused : asksRule(command) ? said : undefined));
    const asked = switchOf({ backend: 'nft', families: { ipv4: tools } }, run, true, true);
    expect(await asked.then((found) => (found ? 'with it' : 'without it'), messageOf)).toContain(then);
  });

  test.each([
    [true, 'not installed any more'],
    [false, 'goes on'],
  ])('without ipset does not go on with a change that another made by the switch: %s', async (wasUsed, then) => {
    const left = setsLeft(undefined, kernel().run, wasUsed);
    expect(await left.then(() => 'goes on', messageOf)).toContain(then);
  });

  test('stops when the sets cannot be listed', async () => {
    const { run } = kernel([], () => failed(1, 'ipset v7.17: Kernel error received: Cannot allocate memory'));
    await expect(setsLeft('ipset', run, false)).rejects.toBeInstanceOf(KernelError);
    const none = kernel([], () => failed(1, 'ipset v7.17: Cannot open session to kernel.'));
    await expect(setsLeft('ipset', none.run, true)).resolves.toEqual([]);
  });
});

test.skipIf(findTool('iptables-legacy') === undefined)(
  'tools are not taken for missing while another program holds the lock',
  async () => {
    const held = (times: number): Run => {
      let asked = 0;
      return async ({ args }) => {
        if (args.includes('--version')) return { ...good, stdout: 'iptables v1.8.9 (legacy)' };
        return asked++ < times ? locked : good;
      };
    };
    const some = await detectTools('legacy', held(2));
    expect(Object.keys(some.families).length).toBeGreaterThan(0);
    await expect(detectTools('legacy', held(100))).rejects.toThrow('xtables lock');
  },
);
