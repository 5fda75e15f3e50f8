import type { Meeting } from '../doctor/meetings.ts';
import type { Run } from '../kernel/command.ts';
import { findTool } from '../kernel/tools.ts';
import { bounds } from './bounds.ts';

/**
 * Reads how many packets rules of iptables counted, and policies.
 * @param rules with their table
 * @returns by `Meeting.rule`
 * @throws Error when a tool fails
 */
export async function readRuleCounters(rules: readonly Meeting[], run: Run): Promise<ReadonlyMap<string, number>> {
  const found = new Map<string, number>();
  const wanted = new Set(rules.map(({ rule }) => rule));
  for (const [command, [first]] of Map.groupBy(rules, ({ rule }) => rule.split(' ', 3).join(' '))) {
    // `iptables-nft -t filter`
    const [tool = ''] = command.split(' ');
    const file = findTool(`${tool}-save`);
    if (file === undefined || first?.table === undefined) continue;
    let rest = '';
    const take = (part: string): void => {
      const lines = `${rest}${part}`.split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) addCounted(line, command, wanted, found);
    };
    const ran = await run({ file, args: ['-c', '-t', first.table], timeoutMs: bounds.toolMs, onOutput: take });
    if (ran.exitCode !== 0) throw new Error(ran.why);
  }
  return found;
}

/** Adds what a line counted. A chain may have the same rule twice, of which the first takes all packets. */
export function addCounted(line: string, command: string, wanted: ReadonlySet<string>, to: Map<string, number>): void {
  const [rule, packets] = readCounted(line);
  const key = `${command} ${rule}`;
  if (rule !== '' && wanted.has(key)) to.set(key, (to.get(key) ?? 0) + packets);
}

/** `[12:720] -A FORWARD -j DROP`, `:FORWARD DROP [12:720]`; an empty rule for other lines. */
export function readCounted(line: string): readonly [string, number] {
  const [, packets = '', rule = ''] = /^\[(\d+):\d+\] (-A .*)$/.exec(line) ?? [];
  if (rule !== '') return [rule, Number(packets)];
  const [, chain = '', policy = '', counted = ''] = /^:(\S+) (ACCEPT|DROP) \[(\d+):\d+\]$/.exec(line) ?? [];
  return chain === '' ? ['', 0] : [`-P ${chain} ${policy}`, Number(counted)];
}
