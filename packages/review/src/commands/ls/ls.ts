import { columns, document } from '@sluice/cli';
import { compareText, Stopped } from '@sluice/netfilter';
import { nodesOf, ResolveCache, summariseNode } from '@sluice/bundle';
import { exitCodes } from '@sluice/renderer/exit.ts';
import { bundleAt } from '@sluice/renderer/commands/bundle/bundle-at.ts';
import { incomplete } from '@sluice/renderer/commands/bundle/complete.ts';
import { withoutNodes } from '@sluice/renderer/commands/bundle/without-nodes.ts';
import { print, progress } from '@sluice/renderer/commands/output/progress.ts';
import { reportProblems } from '@sluice/renderer/commands/output/output.ts';

interface NodeRow {
  readonly node: string;
  readonly profile: string;
  readonly zone?: string;
  readonly version: string;
}

/** `sluice ls`: prints profiles, nodes and their versions. */
export function lsCommand(dir: string, options: { readonly output: 'text' | 'json' }): number {
  progress(`reading ${dir}`);
  const files = bundleAt(dir);
  reportProblems(incomplete(dir, files));
  const names = nodesOf(files);
  progress(`resolving ${names.length} nodes`);
  const cache = new ResolveCache();
  const rows: NodeRow[] = [];
  let cluster = '';
  for (const name of names) {
    const node = summariseNode(files, name, cache);
    // The other nodes of the profile would report the same problem.
    if (!('version' in node)) throw new Stopped(node);
    cluster = node.cluster.name;
    const { zone } = node.nodeFile;
    rows.push({
      node: name,
      profile: node.profileName,
      ...(zone === undefined ? {} : { zone }),
      version: node.version,
    });
  }
  reportProblems(withoutNodes(files));
  print(options.output === 'json' ? json(cluster, rows) : text(rows));
  return exitCodes.done;
}

function json(cluster: string, rows: readonly NodeRow[]): string {
  const profiles = [...Map.groupBy(rows, (row) => row.profile)]
    .toSorted(([a], [b]) => compareText(a, b))
    .map(([name, of]) => ({ name, nodes: of.length }));
  return document('BundleList', { cluster, profiles, nodes: rows });
}

function text(rows: readonly NodeRow[]): string {
  return columns([
    ['PROFILE', 'NODE', 'ZONE', 'VERSION'],
    ...rows.map((row) => [row.profile, row.node, row.zone ?? '-', row.version]),
  ]);
}
