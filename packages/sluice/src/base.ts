import { examples, exitLine, newProgram, shellCommands, versionCommand } from '@sluice/cli';
import type { Command } from 'commander';
import { print } from '@sluice/renderer/commands/output/progress.ts';
import {
  addAllocations,
  addInit,
  addKrm,
  addRender,
  addSnapshot,
  addValidate,
  addWatch,
} from '@sluice/renderer/commands/verbs/render.ts';
import { bundleNames } from '@sluice/renderer/load/names.ts';

/** Completion of names that a bundle directory contains. */
const names = {
  '--node': (operands: readonly string[]) => namesIn(operands, (dir) => bundleNames.nodes(dir)),
  '--service': (operands: readonly string[]) => namesIn(operands, (dir) => bundleNames.services(dir)),
};

/** The names in the first operand that is a bundle directory; without any, in the default one. */
const namesIn = (operands: readonly string[], list: (dir: string) => readonly string[]): readonly string[] =>
  [...operands, 'rendered'].map(list).find((found) => found.length > 0) ?? [];

/** Each adds a verb to a program, by the group in its help. */
export type Verbs = Readonly<Record<string, readonly ((program: Command) => void)[]>>;

const render: Verbs = {
  'Render:': [addInit, addRender, addValidate, addAllocations, addSnapshot, addWatch, addKrm],
};

/**
 * Builds the command line of `sluice`: the verbs that render, and others. The code of each command is loaded when it is called: `sluice --version` must not wait for
 * parsers that it does not use.
 */
export function buildWith(others: Verbs): Command {
  const program = newProgram('sluice', 'Renders Kubernetes Services into versioned rule bundles, one per node.');
  examples(
    program,
    [
      'sluice render -f manifests/ -o rendered',
      'kustomize build . | sluice render -f - --base snapshot.yaml -c sluice.yaml -o rendered',
      'sluice render -f manifests/ -c sluice.yaml -o rendered --check',
      ...('Read a bundle:' in others
        ? ['sluice show rendered --node node-a --tool iptables | iptables-restore --noflush']
        : []),
    ],
    exitLine([0, 1, 2]),
  );
  for (const [group, ofGroup] of Object.entries({ ...render, ...others })) {
    program.commandsGroup(group);
    for (const addTo of ofGroup) addTo(program);
  }
  program.commandsGroup('This program:').helpCommand(true);
  versionCommand(program, () => import('@sluice/bundle'), print);
  shellCommands(program, names, print);
  return program;
}
