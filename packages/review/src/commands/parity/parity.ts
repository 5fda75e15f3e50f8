import { nodesOf, type Observation, type ParityReport, resultOf } from '@sluice/bundle';
import { type Problem, refusal } from '@sluice/netfilter';
import { type ParityFormat, printParity } from '../../emit/parity/print.ts';
import { exitCodes } from '@sluice/renderer/exit.ts';
import { parityOf } from '../../parity/parity.ts';
import { bundleAt } from '@sluice/renderer/commands/bundle/bundle-at.ts';
import { fileNames } from '@sluice/renderer/commands/bundle/file-names.ts';
import { Stopped } from '@sluice/renderer/commands/failure/failure.ts';
import { observationAt, placesIn } from '../input/observation.ts';
import { print, progress, say } from '@sluice/renderer/commands/output/progress.ts';

interface ParityOptions {
  readonly node?: string;
  readonly output: ParityFormat;
  /** Another bundle, whose own differences are left out. */
  readonly base?: string;
}

/** `sluice parity`: compares an observed node with a bundle. */
export function parityCommand(path: string, dir: string, options: ParityOptions): number {
  progress(`reading ${path}`);
  const { seen, text } = observationAt(path);
  const node = nodeNamed(seen, path, options.node);
  progress(`reading ${dir}`);
  const files = bundleAt(dir);
  if (!nodesOf(files).includes(node)) throw new Stopped(nodeIsGone(node, path, dir));
  progress('tracing packets');
  const whole = parityOf(files, seen, node, placesIn(path, text));
  const report = options.base === undefined ? whole : sinceBase(whole, seen, options.base);
  print(printParity({ report, observed: path, fileOf: fileNames(files, dir) }, options.output));
  return exitOf[report.result];
}

/** What `base` does not differ in; the whole report where it does not have the node, as before a change that adds it. */
function sinceBase(whole: ParityReport, seen: Observation, base: string): ParityReport {
  const files = bundleAt(base);
  if (!nodesOf(files).includes(seen.node)) {
    say(`${base} has no node ${seen.node}: no difference is left out\n`);
    return whole;
  }
  return newSince(parityOf(files, seen, seen.node), whole);
}

const nodeIsGone = (node: string, path: string, dir: string): Problem =>
  refusal(
    'BUNDLE_UNKNOWN_NODE',
    `Cannot compare ${path} with ${dir}: the bundle has no node ${node}`,
    `Remove ${path} if the node left the cluster; else add its Node to the input and render`,
  );

const exitOf = {
  equivalent: exitCodes.done,
  different: exitCodes.different,
  incomplete: exitCodes.problem,
} as const;

function nodeNamed({ node }: Observation, path: string, asked: string | undefined): string {
  if (asked === undefined || asked === node) return node;
  throw new Stopped({
    code: 'OBSERVATION_INVALID',
    level: 'error',
    message: `Cannot compare node ${asked} with ${path}: it is of node ${node}`,
    hint: `Pass --node ${node}, or a file of node ${asked}`,
  });
}

/**
 * What a change of a bundle makes different from an observed node: the differences of the changed bundle that the one before does not have.
 * Files of nodes in a repository grow old, and each change would show all that happened since.
 * @param before of the bundle before the change, about the same observation
 */
export function newSince(before: ParityReport, after: ParityReport): ParityReport {
  const known = new Set(before.differences.map(({ id }) => id));
  const differences = after.differences.filter(({ id }) => !known.has(id));
  const { coverage, result: _result, differences: all, ...rest } = after;
  return {
    ...rest,
    base: { version: before.version, known: all.length - differences.length },
    result: resultOf({ differences, coverage }),
    coverage,
    differences,
  };
}
