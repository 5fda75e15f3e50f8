import { writeFileSync } from 'node:fs';
import { type HostFacts, printHostFacts } from '@sluice/bundle';
import type { Problem } from '@sluice/netfilter';
import type { Format } from '@sluice/cli';
import { CommandError } from '../../command-error.ts';
import type { SluicedConfig } from '../../config.ts';
import { readMachine } from '../../kernel/facts.ts';
import { runChildren } from '../../kernel/run.ts';
import { procTunables } from '../../kernel/sysctl.ts';
import { detectTools } from '../../kernel/tools.ts';
import { exitCodes } from '../../ports/outcome.ts';
import { messageOf } from '../../message.ts';
import { familyNames } from '../../ports/node-state.ts';
import { linksWithBpf, providesKubeChains } from '../../admission/kernel-context.ts';
import { openSession } from '../session/session.ts';
import { answer, type CommonOptions, loadConfig, type Terminal } from '../terminal/terminal.ts';

export interface ObserveOptions extends Omit<CommonOptions, 'output'> {
  /** Where the facts go; `-` is standard output. */
  readonly output: string;
  readonly report?: Format;
}

/** `sluiced observe -o FILE`: writes the facts of this machine, for `sluice show --host`. It only reads the host, and takes no lock. */
export async function observe({ output, report, ...options }: ObserveOptions, terminal: Terminal): Promise<number> {
  const config = loadConfig(options);
  if (process.geteuid?.() !== 0) throw new CommandError([notRoot], exitCodes.refused);
  const text = printHostFacts(await factsOf(config));
  if (output === '-') {
    terminal.out(text);
    return exitCodes.done;
  }
  write(output, text);
  const result = {
    kind: 'Observation',
    fields: { node: config.node, file: output },
    text: `${output}: ${config.node}\n`,
  };
  answer(report ? { output: report } : {}, terminal, result);
  return exitCodes.done;
}

async function factsOf(config: SluicedConfig): Promise<HostFacts> {
  const session = await openSession(config, 'look', () => undefined);
  try {
    const ports = await session.portsOf(session.backend);
    const tools = await detectTools(session.backend, runChildren());
    const families = familyNames.filter((family) => tools.families[family] !== undefined);
    // The same conditions as for admission: admission/admission.ts.
    const isAlone = config.layout !== 'tree' || config.takeOver.includes('kube-proxy');
    return {
      node: config.node,
      ...readMachine(procTunables),
      knowsBpf: linksWithBpf(ports),
      providesKubeChains: isAlone || (await providesKubeChains(families, ports)).provides,
    };
  } finally {
    session.close();
  }
}

function write(path: string, text: string): void {
  try {
    writeFileSync(path, text);
  } catch (error) {
    throw new CommandError([unwritable(path, messageOf(error))]);
  }
}

const unwritable = (path: string, why: string): Problem => ({
  code: 'OUTPUT_UNWRITABLE',
  level: 'error',
  message: `Cannot write ${path}: ${why}`,
  hint: 'Check the path, its permissions and the free space; then run the same command again',
});

const notRoot: Problem = {
  code: 'NODE_NOT_ROOT',
  level: 'error',
  message: 'Cannot observe this node: only root can read its rules',
  hint: 'Run it as root; it changes nothing',
};
