// The cost of the Service's key in the rules that lead to its chains: the nat table of layout `tree` with these comments and without,
// each in a network namespace of its own. Started by comments.ts. Prints one JSON line.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type BundleFiles, resolveSections } from '@sluice/bundle';
import { linkTree, settledProgram } from '@sluice/netfilter';
import { printStaged } from '../../packages/applier/src/apply/plan/stages.ts';
import { readTree } from '../../packages/renderer/src/load/tree.ts';
import { mustBeInNamespace } from './in-namespace.ts';
import { publish } from './inbox.ts';
import { median } from './measure.ts';

mustBeInNamespace();
const [services, backend, rounds] = [Number(process.argv[2]), process.argv[3] ?? 'nft', Number(process.argv[4])];

function programText(): string {
  const bundle = mkdtempSync(join(tmpdir(), 'sluice-comments-'));
  try {
    publish(bundle, services);
    const node = resolveSections(readTree(bundle) as BundleFiles, 'node-0000');
    if (!('version' in node)) throw new Error(node[0]?.message);
    const { program, problems } = linkTree(node.sections.get('ipv4') ?? [], { family: 'ipv4' });
    if (problems[0]) throw new Error(problems[0].message);
    return printStaged(settledProgram(program), 500);
  } finally {
    rmSync(bundle, { recursive: true, force: true });
  }
}

const text = programText();
const commented = /^(-A SLUICE-T-\S+ .*?)-m comment --comment "(?:[^"\\]|\\.)*" /gm;
const bare = text.replaceAll(commented, '$1');
const comments = text.match(commented)?.length ?? 0;
const texts = { with: text, without: bare, again: text } as const;
type Variant = keyof typeof texts;
const variants = Object.keys(texts) as readonly Variant[];

const nameOf = (variant: Variant): string => `slb-${process.pid}-${variant}`;

function restore(variant: Variant, input: string): number {
  const command = [`--net=/run/netns/${nameOf(variant)}`, `/usr/sbin/iptables-${backend}-restore`, '--noflush'];
  const started = performance.now();
  execFileSync('/usr/bin/nsenter', command, { input, stdio: ['pipe', 'ignore', 'pipe'] });
  return performance.now() - started;
}

/** Adds a rule that no packet meets, and removes it. */
function commit(variant: Variant): number {
  const took = restore(variant, '*nat\n:SLB-ALONE - [0:0]\n-A SLB-ALONE -j ACCEPT\nCOMMIT\n');
  restore(variant, '*nat\n:SLB-ALONE - [0:0]\n-X SLB-ALONE\nCOMMIT\n');
  return took;
}

/** On a busy machine the minimum is more meaningful than the median. */
const summary = (all: readonly number[]) => ({ median: median(all), least: Math.min(...all) });

function measured(measure: (variant: Variant) => number, times: number) {
  const all: Record<Variant, number[]> = { with: [], without: [], again: [] };
  for (let round = 0; round < times; round++) {
    // Each variant is first equally often.
    for (let at = 0; at < variants.length; at++) {
      const variant = variants[(at + round) % variants.length] as Variant;
      all[variant].push(measure(variant));
    }
  }
  return { with: summary(all.with), without: summary(all.without), again: summary(all.again) };
}

const makeNamespace = (variant: Variant): void => {
  execFileSync('/usr/sbin/ip', ['netns', 'add', nameOf(variant)]);
};
const removeNamespace = (variant: Variant): void => {
  execFileSync('/usr/sbin/ip', ['netns', 'delete', nameOf(variant)]);
};

for (const variant of variants) makeNamespace(variant);
const load = measured((variant) => {
  removeNamespace(variant);
  makeNamespace(variant);
  return restore(variant, texts[variant]);
}, 3);
const change = measured(commit, rounds);
for (const variant of variants) removeNamespace(variant);
process.stdout.write(`${JSON.stringify({ comments, load, change })}\n`);
