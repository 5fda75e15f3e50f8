// What the key of a Service costs in the rules that lead to its chains: the nat table of layout `tree` with these comments and without,
// each in a network namespace of its own. Started by comments.ts. Prints one JSON line.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type BundleFiles, linkTree, resolveSections, settledProgram } from '@sluice/bundle';
import { printStaged } from '../../packages/applier/src/rollout/stages.ts';
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
type Way = keyof typeof texts;
const ways = Object.keys(texts) as readonly Way[];

const nameOf = (way: Way): string => `slb-${process.pid}-${way}`;

function restore(way: Way, input: string): number {
  const command = [`--net=/run/netns/${nameOf(way)}`, `/usr/sbin/iptables-${backend}-restore`, '--noflush'];
  const started = performance.now();
  execFileSync('/usr/bin/nsenter', command, { input, stdio: ['pipe', 'ignore', 'pipe'] });
  return performance.now() - started;
}

/** A rule more that no packet meets, and away with it. */
function commit(way: Way): number {
  const took = restore(way, '*nat\n:SLB-ALONE - [0:0]\n-A SLB-ALONE -j ACCEPT\nCOMMIT\n');
  restore(way, '*nat\n:SLB-ALONE - [0:0]\n-X SLB-ALONE\nCOMMIT\n');
  return took;
}

/** On a machine with other work the fastest run says more than the one in the middle. */
const summary = (all: readonly number[]) => ({ median: median(all), least: Math.min(...all) });

function taken(measure: (way: Way) => number, times: number) {
  const all: Record<Way, number[]> = { with: [], without: [], again: [] };
  for (let round = 0; round < times; round++) {
    // Each way comes first as often as the others.
    for (let at = 0; at < ways.length; at++) {
      const way = ways[(at + round) % ways.length] as Way;
      all[way].push(measure(way));
    }
  }
  return { with: summary(all.with), without: summary(all.without), again: summary(all.again) };
}

const makeNamespace = (way: Way): void => {
  execFileSync('/usr/sbin/ip', ['netns', 'add', nameOf(way)]);
};
const removeNamespace = (way: Way): void => {
  execFileSync('/usr/sbin/ip', ['netns', 'delete', nameOf(way)]);
};

for (const way of ways) makeNamespace(way);
const load = taken((way) => {
  removeNamespace(way);
  makeNamespace(way);
  return restore(way, texts[way]);
}, 3);
const change = taken(commit, rounds);
for (const way of ways) removeNamespace(way);
process.stdout.write(`${JSON.stringify({ comments, load, change })}\n`);
