// @module-tag test
import { existsSync } from 'node:fs';
import { programPath } from '@sluice/testing';
import { execaSync } from 'execa';
import { beforeEach, expect, test } from 'vitest';
import { listExamples } from '../../tools/examples.ts';
import { needKernel } from './privileges.ts';
import { feed, inScratchNamespace } from './scratch.ts';

beforeEach(needKernel);

const sluice = programPath('sluice');

/** The output of a command, as a shell would pipe it. */
function print(args: readonly string[]): string {
  return execaSync(sluice, args, { stripFinalNewline: false }).stdout;
}

const nodes = listExamples().flatMap(({ name, output }) => {
  const { nodes: listed } = JSON.parse(print(['ls', output, '-o', 'json'])) as { nodes: readonly { node: string }[] };
  return listed.slice(0, 1).map(({ node }) => ({ name, output, node }));
});

/** A kernel without IPVS lacks the match for virtual servers, too. Those rules are loaded in the guest. */
const hasIpvs = existsSync('/proc/net/ip_vs');
const loadable = (text: string): string => (hasIpvs ? text : text.replaceAll(/^-A .* -m ipvs .*\n/gm, ''));

/** Chains of both tables that a text declares or a kernel holds. */
const chainsOf = (text: string): readonly string[] => [...new Set(text.match(/^:(?:KUBE|SLU)-\S+/gm))].toSorted();

test.each(nodes)('the output of show for $node of $name can be loaded by hand', ({ output, node }) => {
  // Rules of mode ipvs refer to sets, which are loaded first; virtual servers are loaded in the guest, whose kernel has them.
  const sets = feed('ipset restore', print(['show', output, '--node', node, '--tool', 'ipset']));
  for (const tool of ['iptables', 'ip6tables']) {
    const text = loadable(print(['show', output, '--node', node, '--tool', tool]));
    const saved = inScratchNamespace(`${sets}${feed(`${tool}-restore --noflush`, text)}\n${tool}-save\n`);
    expect(chainsOf(saved)).toEqual(chainsOf(text));
    expect(saved.match(/^-A KUBE-/gm)?.length).toBe(text.match(/^-A KUBE-/gm)?.length);
  }
  const table = print(['show', output, '--node', node, '--tool', 'nft']);
  const listed = inScratchNamespace(`${feed('nft -f -', table)}\nnft -n list ruleset\n`);
  const verdicts = (text: string): number => text.match(/ : goto /g)?.length ?? 0;
  expect(verdicts(listed)).toBe(verdicts(table));
});
