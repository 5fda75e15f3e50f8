import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { examples, exitLine, newProgram, shellCommands, versionCommand } from '@sluice/cli';
import type { Command } from 'commander';
import type { CommandContext } from './commands/options/context.ts';
import { addApply, addBoot, addFetch, addImport, addPreflight, addRehearse, addRun } from './commands/verbs/apply.ts';
import { addCheckpoint, addDecisions, addDrain, addQuarantine, addRollback } from './commands/verbs/decide.ts';
import { addDoctor, addHistory, addObserve, addShow, addStatus, addTop } from './commands/verbs/look.ts';
import { addAdopt, addBackend, addCleanup, addInit, addKeygen, addRecover } from './commands/verbs/move.ts';

const addVersion = (program: Command, { terminal }: CommandContext): void =>
  versionCommand(
    program,
    () => import('@sluice/bundle'),
    (text) => terminal.out(text),
  );

/** The verbs, by their groups in the help. */
const verbs = {
  'Apply bundles:': [addPreflight, addApply, addImport, addFetch, addRun, addBoot, addRehearse],
  'Look at this node:': [addStatus, addTop, addShow, addHistory, addDoctor, addObserve],
  'Decide about a release:': [addDecisions, addRollback, addCheckpoint, addQuarantine],
  'Take this node out:': [addDrain],
  'Move and repair:': [addAdopt, addBackend, addRecover, addCleanup],
  'This program:': [addInit, addKeygen, addVersion],
} as const;

/** For man pages and shell completion, which read the commands and run none. */
const noContext: CommandContext = {
  terminal: { out() {}, err() {} },
  finish: async () => {},
  environment: {},
  runDaemon: async () => 0,
};

/**
 * Every command of `sluiced` with its options and help, ready to parse. A command's code is loaded when it runs, so that `sluiced
 * --version` starts fast.
 */
export function buildProgram(context = noContext): Command {
  const program = newProgram(
    'sluiced',
    "Applies a node's rule bundle to its kernel, checks health, and rolls back when a probe fails.",
  );
  examples(
    program,
    [
      'sluiced preflight /srv/rules --node node-a',
      'sluiced apply /srv/release --dry-run',
      'sluiced run -c /etc/sluice/sluiced.yaml',
      'sluiced status',
    ],
    exitLine([0, 1, 2, 3, 4, 5]),
  );
  for (const [group, ofGroup] of Object.entries(verbs)) {
    program.commandsGroup(group);
    for (const addTo of ofGroup) addTo(program, context);
  }
  program.helpCommand(true);
  shellCommands(program, { '--node': ([dir]) => nodesIn(dir) }, (text) => context.terminal.out(text));
  return program;
}

/**
 * Names of the nodes in a bundle directory, for shell completion, from file names alone. Empty where the directory cannot be read.
 * @param dir default: the daemon's default directory
 */
function nodesIn(dir = '/etc/sluice/rendered'): readonly string[] {
  try {
    return readdirSync(join(dir, 'nodes')).toSorted();
  } catch {
    return [];
  }
}
