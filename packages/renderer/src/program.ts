import { examples, exitLine, shellCommands, versionCommand } from '@sluice/cli';
import { Command } from 'commander';
import { print } from './commands/output/progress.ts';
import { bundleNames } from './load/names.ts';
import { version, versionSource } from './version.ts';
import { allocationsCommands } from './commands/allocations/command.ts';
import { carryCommands } from './cli/carry.ts';
import { clusterCommands } from './cli/cluster.ts';
import { fleetCommands } from './cli/fleet.ts';
import { inspectCommands } from './cli/inspect.ts';
import { gateCommands } from './cli/gates.ts';
import { releaseCommands } from './cli/release.ts';
import { renderCommands } from './cli/render.ts';
import { reviewCommands } from './cli/review.ts';

/** Completion of names that a bundle directory contains. */
const names = {
  '--node': ([dir = 'rendered']: readonly string[]) => bundleNames.nodes(dir),
  '--service': ([dir = 'rendered']: readonly string[]) => bundleNames.services(dir),
};

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
  renderCommands(program);
  clusterCommands(program);
  inspectCommands(program);
  reviewCommands(program);
  gateCommands(program);
  releaseCommands(program);
  carryCommands(program);
  fleetCommands(program);
  allocationsCommands(program);
  versionCommand(program, () => versionSource(process), print);
  shellCommands(program, names, print);
  return program;
}
