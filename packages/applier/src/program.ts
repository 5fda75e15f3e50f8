import { examples, exitLine, shellCommands, versionCommand, version } from '@sluice/cli';
import { Command } from 'commander';
import { addAdopt } from './commands/adopt/command.ts';
import { addApply } from './commands/apply/command.ts';
import { addBackend } from './commands/backend/command.ts';
import { addBoot } from './commands/boot/command.ts';
import { addCheckpoint } from './commands/checkpoint/command.ts';
import { addCleanup } from './commands/cleanup/command.ts';
import { addDecisions } from './commands/decide/command.ts';
import { addDoctor } from './commands/doctor/command.ts';
import { addHistory } from './commands/history/command.ts';
import { addImport } from './commands/import/command.ts';
import { addDrain } from './commands/drain/command.ts';
import { addKeygen } from './commands/keygen/command.ts';
import { addObserve } from './commands/observe/command.ts';
import { addPreflight } from './commands/preflight/command.ts';
import { addQuarantine } from './commands/quarantine/command.ts';
import { addRecover } from './commands/recover/command.ts';
import { addRehearse } from './commands/rehearse/command.ts';
import { addRollback } from './commands/rollback/command.ts';
import { addRun } from './commands/run/command.ts';
import { addShow } from './commands/show/command.ts';
import { addStatus } from './commands/status/command.ts';
import { addTop } from './commands/top/command.ts';
import type { CommandContext } from './commands/options/context.ts';
import { nodesIn } from './commands/options/names.ts';

const addVersion = (program: Command, { terminal }: CommandContext): void =>
  versionCommand(
    program,
    () => import('@sluice/bundle'),
    (text) => terminal.out(text),
  );

/** The verbs, by their groups in the help. */
const verbs = {
  'Apply bundles:': [addPreflight, addApply, addImport, addRun, addBoot, addRehearse],
  'Look at this node:': [addStatus, addTop, addShow, addHistory, addDoctor, addObserve],
  'Decide about a release:': [addDecisions, addRollback, addCheckpoint, addQuarantine],
  'Take this node out:': [addDrain],
  'Move and repair:': [addAdopt, addBackend, addRecover, addCleanup],
  'This program:': [addKeygen, addVersion],
} as const;

/** For man pages and shell completion, which read the commands and run none. */
const noContext: CommandContext = {
  terminal: { out() {}, err() {} },
  finish: async () => {},
  runDaemon: async () => 0,
};

/**
 * Every command of `sluiced` with its options and help, ready to parse. A command's code is loaded when it runs, so that `sluiced
 * --version` starts fast.
 */
export function buildProgram(context = noContext): Command {
  const program = new Command('sluiced')
    .description("Applies a node's rule bundle to its kernel, checks health, and rolls back when a probe fails.")
    .version(version)
    .configureHelp({ sortSubcommands: false })
    .exitOverride();
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
