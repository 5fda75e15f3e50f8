import { type Observation, observationOf, observedDigest, type ToolTexts } from '@sluice/bundle';
import type { Run } from '../kernel/command.ts';
import { findTool } from '../kernel/tools.ts';
import { limits } from '../limits.ts';
import { bootId } from './read-file.ts';

/** The tools whose outputs are observed, by part; those that are not installed are missing. */
const commands = {
  'rules-nft-ipv4': ['iptables-nft-save'],
  'rules-nft-ipv6': ['ip6tables-nft-save'],
  'rules-legacy-ipv4': ['iptables-legacy-save'],
  'rules-legacy-ipv6': ['ip6tables-legacy-save'],
  sets: ['ipset', 'save'],
  servers: ['ipvsadm', '-S', '-n'],
  addresses: ['ip', '-json', 'addr', 'show'],
  'nft-tables': ['nft', '-j', 'list', 'ruleset'],
} as const satisfies Partial<Record<keyof ToolTexts, readonly [string, ...string[]]>>;

/**
 * Observes this machine: packages/bundle/README.md, "Observations". Only reads.
 * @param node its name in the bundle
 */
export async function observeNode(node: string, run: Run): Promise<Observation> {
  const texts: Record<string, { text: string } | { why: string }> = {};
  for (const [part, [tool, ...args]] of Object.entries(commands)) texts[part] = await textOf(tool, args, run);
  const missing = { why: 'it is not observed' };
  const all = { routes: missing, sysctls: missing, ...texts } as unknown as ToolTexts;
  return observationOf({ node, bootId: bootId(), tools: {} }, all);
}

/** The digest of what this machine holds now. */
export const observeDigest = async (run: Run): Promise<string> => observedDigest(await observeNode('node', run));

async function textOf(
  tool: string,
  args: readonly string[],
  run: Run,
): Promise<{ readonly text: string } | { readonly why: string }> {
  const file = findTool(tool);
  if (file === undefined) return { why: `${tool} is not installed` };
  const { exitCode, stdout, why } = await run({ file, args, outputBytesMax: limits.commandOutputBytesMax });
  return exitCode === 0 ? { text: stdout } : { why };
}
