import type { Problem } from '@sluice/netfilter';
import type { Format } from '@sluice/cli';
import { countProblems } from '../../emit/problems.ts';
import { exitCodes } from '../../exit.ts';
import { allocationPath } from '../../load/allocations.ts';
import { allocatedServices, allocationsAsManifests } from '../../load/allocations-manifests.ts';
import type { Allocation } from '../../render/allocate/allocation.ts';
import { render } from '../../render/render.ts';
import { type InputOptions, readInput } from '../input/input.ts';
import { print, progress, say } from '../output/progress.ts';
import { isStopped, joinProblems } from '../failure/problems.ts';
import { reportProblems } from '../output/output.ts';

/** `sluice allocations manifests`: prints the Services with all allocated addresses and ports, for an API server to adopt. */
export async function manifestsCommand({
  output,
  ...options
}: Omit<InputOptions, 'output'> & { readonly output: Format }): Promise<number> {
  progress('reading');
  const { input, problems } = await readInput(options);
  const rendered = render(input);
  const found = joinProblems(problems, rendered.problems);
  reportProblems(found);
  if (isStopped(found, options.strict)) {
    say(`Nothing was printed: ${countProblems(found)}\n`);
    return exitCodes.problem;
  }
  if (rendered.created.length > 0) reportProblems(rendered.created.map(notKept));
  const services = input.change.filter(({ kind }) => kind === 'Service');
  const held = new Map(
    [...input.allocations, ...rendered.created].map((allocation) => [allocationPath(allocation), allocation]),
  );
  print(
    output === 'json'
      ? listOf(allocatedServices(services, held.values()))
      : allocationsAsManifests(services, held.values()),
  );
  return exitCodes.done;
}

/** A List, which `kubectl apply -f -` accepts. */
const listOf = (items: readonly object[]): string =>
  `${JSON.stringify({ apiVersion: 'v1', kind: 'List', items }, undefined, 2)}\n`;

/** An allocation that is not in a file yet could go to another Service before this one is applied. */
function notKept(allocation: Allocation): Problem {
  return {
    code: 'ALLOCATION_MISSING',
    level: 'warning',
    object: `Service ${allocation.namespace}/${allocation.name}`,
    message: 'Cannot guarantee the printed addresses and ports: they are not in an allocation file yet',
    hint: 'Run `sluice render` with the same input first, and commit allocations/',
  };
}
