// The rounds of one size, as the first process of namespaces of their own, started by main.ts with a plan as JSON. Prints a line of JSON for
// each round of a subject; progress goes to standard error. It ends with its standard input, and ends all its processes.
import type { ApiServerPrograms } from '../../parity/binaries.ts';
import { mustBeInNamespace } from '../in-namespace.ts';
import { openApi } from './api.ts';
import { type Changing, parityCluster } from './cluster.ts';
import { apiAddress, now, setUpApiAddress } from './node.ts';
import type { BenchPrograms } from './programs.ts';
import { type Round, runRound } from './round.ts';
import { type SubjectName, subjects } from './subjects.ts';

export interface BenchPlan {
  readonly services: number;
  readonly endpointsPerService: number;
  readonly rounds: number;
  readonly changesPerRound: number;
  readonly steadySeconds: number;
  readonly changing: Changing;
  readonly subjects: readonly SubjectName[];
  readonly programs: BenchPrograms;
  /** Empty, for what the programs read and write. */
  readonly dir: string;
  readonly apiServer?: ApiServerPrograms;
}

/** A round of a subject, or the reason why it failed. */
export type RoundResult = { readonly subject: SubjectName } & (
  | { readonly round: Round }
  | { readonly failure: string }
);

async function main(plan: BenchPlan): Promise<void> {
  mustBeInNamespace();
  await setUpApiAddress();
  const cluster = parityCluster(plan.services, plan.endpointsPerService, plan.changing);
  const loading = now();
  const api = await openApi(plan.apiServer, cluster.items, apiAddress);
  progress(`${plan.services} Services are loaded after ${seconds(now() - loading)}`);
  const options = {
    programs: plan.programs,
    api,
    cluster,
    dir: plan.dir,
    changes: plan.changesPerRound,
    steadySeconds: plan.steadySeconds,
  };
  // A subject that failed is not started again: its time-out took half an hour.
  const failed = new Set<SubjectName>();
  try {
    for (let turn = 1; turn <= plan.rounds; turn++)
      for (const subject of plan.subjects.filter((name) => !failed.has(name))) {
        const begun = now();
        const result = await runRound(subjects[subject], options).then(
          (round): RoundResult => ({ subject, round }),
          (error: unknown): RoundResult => {
            failed.add(subject);
            return { subject, failure: (error as Error).message };
          },
        );
        const ending = 'failure' in result ? ` FAILED: ${result.failure}` : '';
        progress(`round ${turn} of ${plan.rounds}, ${subject}: ${seconds(now() - begun)}${ending}`);
        process.stdout.write(`${JSON.stringify(result)}\n`);
      }
  } finally {
    await api.close();
  }
}

const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`;
const progress = (text: string): void => void process.stderr.write(`  ${text}\n`);

if (import.meta.main) {
  process.stdin.once('close', () => process.exit(1)).resume();
  await main(JSON.parse(process.argv[2] ?? '') as BenchPlan);
  process.exit(0);
}
