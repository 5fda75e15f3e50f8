import type { Place, Problem } from '@sluice/bundle';
import { type Explained, printExplained } from '../emit/review/explain.ts';
import { exitCodes } from '../exit.ts';
import { blameLine } from '../load/blame.ts';
import { load } from '../load/load.ts';
import { readSources } from '../load/sources.ts';
import { explain } from '../review/explain.ts';
import { bundleAt } from './bundle-at.ts';
import { Stopped } from './failure.ts';
import { print, progress } from './progress.ts';
import { tellProblems } from './told.ts';

export interface ExplainOptions {
  readonly dir: string;
  readonly node?: string;
  readonly manifests?: string;
  readonly blame?: boolean;
  readonly output: 'text' | 'json';
}

/** `sluice explain`: which Service a chain, a rule or an address belongs to, where that is written and by whom. */
export async function explainCommand(asked: string, options: ExplainOptions): Promise<number> {
  if (options.blame && options.manifests === undefined) throw new Stopped(blameWithoutManifests);
  progress(`reading ${options.dir}`);
  const explanation = explain(bundleAt(options.dir), asked, options.node);
  if (explanation === undefined || 'code' in explanation) {
    tellProblems([explanation ?? notFound(asked, options.dir)]);
    return exitCodes.problem;
  }
  const manifest =
    options.manifests === undefined || explanation.service === undefined
      ? undefined
      : await placeOf(options.manifests, explanation.service);
  const blame = options.blame && manifest ? blameLine(manifest.file, manifest.line) : undefined;
  const explained: Explained = {
    ...explanation,
    ...(manifest === undefined ? {} : { manifest }),
    ...(blame === undefined ? {} : { blame }),
  };
  print(printExplained(explained, options.output));
  return exitCodes.done;
}

/** Where a Service is written. Manifests that cannot be read are no reason to keep silent about the bundle. */
async function placeOf(manifests: string, service: string): Promise<Place | undefined> {
  const read = await readSources([manifests], { recursive: true, stdin: process.stdin });
  const loaded = load(read.sources);
  tellProblems([...read.problems, ...loaded.problems].filter(({ level }) => level === 'error'));
  const object = loaded.objects.find(({ kind, value }) => {
    const { name, namespace = 'default' } = (value['metadata'] ?? {}) as { name?: string; namespace?: string };
    return kind === 'Service' && `${namespace}/${name}` === service;
  });
  return object?.origin.place([]);
}

const blameWithoutManifests: Problem = {
  code: 'INPUT_UNREADABLE',
  level: 'error',
  message: 'Cannot say who wrote the Service: --blame needs the manifests',
  hint: 'Name them with -f',
};

function notFound(asked: string, dir: string): Problem {
  return {
    code: 'INPUT_EMPTY',
    level: 'error',
    message: `Cannot explain ${JSON.stringify(asked)}: no file of ${dir} has it`,
    hint: 'The kernel may run another version of the bundle: name that one with --dir REV:PATH',
  };
}
