import type { BundleFiles } from '@sluice/bundle';
import { namesNear, type Place, type Problem, refusal } from '@sluice/netfilter';
import { type Explained, printExplained } from '../../emit/explain.ts';
import { exitCodes } from '@sluice/renderer/exit.ts';
import { blameLine } from '@sluice/renderer/load/git/blame.ts';
import { load } from '@sluice/renderer/load/load.ts';
import { servicesIn } from '@sluice/renderer/load/names.ts';
import { readSources } from '@sluice/renderer/load/sources.ts';
import { roughKey } from '@sluice/renderer/render/read/names.ts';
import { explain } from '../../explain/explain.ts';
import { bundleAt } from '@sluice/renderer/commands/bundle/bundle-at.ts';
import { Stopped } from '@sluice/renderer/commands/failure/failure.ts';
import { print, progress } from '@sluice/renderer/commands/output/progress.ts';
import { reportProblems } from '@sluice/renderer/commands/output/output.ts';

interface ExplainOptions {
  readonly dir: string;
  readonly node?: string;
  readonly manifests?: string;
  readonly blame?: boolean;
  readonly output: 'text' | 'json';
}

/** `sluice explain`: finds the Service of a chain, a rule or an address, its manifest and the author. */
export async function explainCommand(query: string, options: ExplainOptions): Promise<number> {
  if (options.blame && options.manifests === undefined) throw new Stopped(blameWithoutManifests);
  progress(`reading ${options.dir}`);
  const files = bundleAt(options.dir);
  const explanation = explain(files, query, options.node);
  if (explanation === undefined || 'code' in explanation)
    throw new Stopped(explanation ?? notFound(query, options.dir, files));
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

/** Finds the manifest of a Service. Unreadable manifests are reported and do not hide the result from the bundle. */
async function placeOf(manifests: string, service: string): Promise<Place | undefined> {
  const read = await readSources([manifests], { recursive: true, stdin: process.stdin });
  const loaded = load(read.sources);
  reportProblems([...read.problems, ...loaded.problems].filter(({ level }) => level === 'error'));
  const object = loaded.objects.find((one) => one.kind === 'Service' && roughKey(one) === service);
  return object?.origin.place([]);
}

const blameWithoutManifests = refusal(
  'INPUT_UNREADABLE',
  'Cannot find the author of the Service: --blame needs the manifests',
  'Pass the manifests with -f',
);

function notFound(query: string, dir: string, files: BundleFiles): Problem {
  const names = /^[a-z0-9-]+\/[a-z0-9-]+$/.test(query) ? namesNear(query, servicesIn(files)) : '';
  return refusal(
    'INPUT_EMPTY',
    `Cannot explain ${JSON.stringify(query)}: it is not in any file of ${dir}`,
    `${names === '' ? '' : `Rules are there for ${names}. `}The kernel may run another version of the bundle: pass that version with --dir REV:PATH`,
  );
}
