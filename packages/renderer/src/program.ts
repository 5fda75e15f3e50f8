import { examples, exitLine, newProgram, shellCommands, versionCommand } from '@sluice/cli';
import type { Command } from 'commander';
import { print } from './commands/output/progress.ts';
import { addAt, addBisect, addDoctor, addTrace } from './commands/verbs/follow.ts';
import { addAdoptPlan, addCertify, addParity } from './commands/verbs/move.ts';
import { addCost, addExplain, addLs, addShow } from './commands/verbs/read.ts';
import {
  addFleet,
  addPack,
  addPromote,
  addPull,
  addPush,
  addRelease,
  addSign,
  addVerify,
} from './commands/verbs/release.ts';
import {
  addAllocations,
  addInit,
  addKrm,
  addRender,
  addSnapshot,
  addValidate,
  addWatch,
} from './commands/verbs/render.ts';
import { addDiff, addPolicy, addProve, addReport, addWhatIf } from './commands/verbs/review.ts';
import { bundleNames } from './load/names.ts';

/** The verbs, by their groups in the help. */
const verbs = {
  'Render:': [addInit, addRender, addValidate, addAllocations, addSnapshot, addWatch, addKrm],
  'Read a bundle:': [addLs, addShow, addExplain, addCost],
  'Follow a packet:': [addTrace, addAt, addBisect, addDoctor],
  'Review a change:': [addDiff, addReport, addPolicy, addProve, addWhatIf],
  'Release:': [addRelease, addSign, addVerify, addPack, addPush, addPull, addPromote, addFleet],
  'Move from kube-proxy:': [addParity, addCertify, addAdoptPlan],
} as const;

/** Completion of names that a bundle directory contains. */
const names = {
  '--node': (operands: readonly string[]) => namesIn(operands, (dir) => bundleNames.nodes(dir)),
  '--service': (operands: readonly string[]) => namesIn(operands, (dir) => bundleNames.services(dir)),
};

/** The names in the first operand that is a bundle directory; without any, in the default one. */
const namesIn = (operands: readonly string[], list: (dir: string) => readonly string[]): readonly string[] =>
  [...operands, 'rendered'].map(list).find((found) => found.length > 0) ?? [];

/**
 * Builds the command line of `sluice`. The code of each command is loaded when it is called: `sluice --version` must not wait for
 * parsers that it does not use.
 */
export function buildProgram(): Command {
  const program = newProgram('sluice', 'Renders Kubernetes Services into versioned rule bundles, one per node.');
  examples(
    program,
    [
      'sluice render -f manifests/ -o rendered',
      'kustomize build . | sluice render -f - --base snapshot.yaml -c sluice.yaml -o rendered',
      'sluice render -f manifests/ -c sluice.yaml -o rendered --check',
      'sluice show rendered --node node-a --tool iptables | iptables-restore --noflush',
    ],
    exitLine([0, 1, 2]),
  );
  for (const [group, ofGroup] of Object.entries(verbs)) {
    program.commandsGroup(group);
    for (const addTo of ofGroup) addTo(program);
  }
  program.commandsGroup('This program:').helpCommand(true);
  versionCommand(program, () => import('@sluice/bundle'), print);
  shellCommands(program, names, print);
  return program;
}
