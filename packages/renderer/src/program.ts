import { examples, exitLine, shellCommands, versionCommand, version } from '@sluice/cli';
import { Command } from 'commander';
import { addAdoptPlan } from './commands/adopt-plan/command.ts';
import { addAllocations } from './commands/allocations/command.ts';
import { addAt } from './commands/at/command.ts';
import { addBisect } from './commands/bisect/command.ts';
import { addCertify } from './commands/certify/command.ts';
import { addCost } from './commands/cost/command.ts';
import { addDiff } from './commands/diff/command.ts';
import { addDoctor } from './commands/doctor/command.ts';
import { addExplain } from './commands/explain/command.ts';
import { addFleet } from './commands/fleet/command.ts';
import { addInit } from './commands/init/command.ts';
import { addKrm } from './commands/krm/command.ts';
import { addLs } from './commands/ls/command.ts';
import { print } from './commands/output/progress.ts';
import { addPack } from './commands/pack/command.ts';
import { addPolicy } from './commands/policy/command.ts';
import { addPromote } from './commands/promote/command.ts';
import { addParity } from './commands/parity/command.ts';
import { addProve } from './commands/prove/command.ts';
import { addPull } from './commands/pull/command.ts';
import { addPush } from './commands/push/command.ts';
import { addRelease } from './commands/release/command.ts';
import { addRender } from './commands/render/command.ts';
import { addReport } from './commands/report/command.ts';
import { addShow } from './commands/show/command.ts';
import { addSign } from './commands/sign/command.ts';
import { addSnapshot } from './commands/snapshot/command.ts';
import { addTrace } from './commands/trace/command.ts';
import { addValidate } from './commands/validate/command.ts';
import { addVerify } from './commands/verify/command.ts';
import { addWatch } from './commands/watch/command.ts';
import { addWhatIf } from './commands/whatif/command.ts';
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
  const program = new Command('sluice')
    .description('Renders Kubernetes Services into versioned rule bundles, one per node.')
    .version(version)
    .configureHelp({ sortSubcommands: false })
    .exitOverride();

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
