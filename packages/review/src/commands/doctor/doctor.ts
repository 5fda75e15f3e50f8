import { diagnose, diagnosisFindings, printDiagnosis, printTarget, readTarget } from '@sluice/netfilter';
import { document, type FindingsFormat, printFindings, version } from '@sluice/cli';
import { exitCodes } from '@sluice/renderer/exit.ts';
import { snapshotCauses } from '@sluice/renderer/render/doctor/snapshot-causes.ts';
import { normalise } from '@sluice/renderer/render/normalise.ts';
import { Stopped } from '@sluice/renderer/commands/failure/failure.ts';
import { type InputOptions, readInput } from '@sluice/renderer/commands/input/input.ts';
import { print, progress } from '@sluice/renderer/commands/output/progress.ts';

/** `sluice doctor [SERVICE|ADDRESS] -f FILE`: the causes that need no node. Exit code 1 when one is found. */
export async function doctorCommand(
  text: string | undefined,
  {
    output,
    node,
    ...options
  }: Omit<InputOptions, 'output'> & { readonly output: FindingsFormat | 'json'; readonly node?: string },
): Promise<number> {
  const target = readTarget(text);
  if (target === undefined)
    throw new Stopped({
      code: 'USAGE_INVALID',
      level: 'error',
      message: `Cannot examine ${JSON.stringify(text)}: neither namespace/name nor an address`,
      hint: 'Pass namespace/name, such as shop/web, or an address, such as 10.96.0.10:80 or [fd00::10]:80',
    });
  progress('reading');
  const { input, problems } = await readInput(options);
  const unreadable = problems.find(({ level }) => level === 'error');
  if (unreadable) throw new Stopped(unreadable);
  const normalised = normalise(input);
  const objects = [...input.base, ...input.change];
  const snapshot = { model: normalised.model, problems: [...problems, ...normalised.problems], objects };
  const diagnosis = diagnose(printTarget(target), snapshotCauses(target, snapshot, node), []);
  const fields = { ...diagnosis, cause: diagnosis.cause ?? null, problems: [] };
  if (output === 'json') print(document('Diagnosis', fields));
  else if (output === 'text') print(printDiagnosis(diagnosis));
  else print(printFindings(diagnosisFindings({ name: 'sluice', version }, diagnosis), output));
  return diagnosis.cause ? exitCodes.different : exitCodes.done;
}
