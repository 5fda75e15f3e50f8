import { closeSync, openSync, writeFileSync } from 'node:fs';
import {
  connectionsFileName,
  connectionsIn,
  type HostFacts,
  type MissingPart,
  type Observation,
  observationOf,
  printObservation,
  proxyVersionFileName,
  textsOf,
} from '@sluice/bundle';
import { type Problem, terminalText } from '@sluice/netfilter';
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
import { readObservation, withConnections } from '../../examine/observation.ts';
import { linksWithBpf, providesKubeChains } from '../../admission/kernel-context.ts';
import { openSession } from '../session/session.ts';
import { answer, type CommonOptions, loadConfig, type Terminal } from '../terminal/terminal.ts';
import { readSavedFiles } from './saved-files.ts';

interface ObserveOptions extends Omit<CommonOptions, 'output'> {
  /** Where the observation goes; `-` is standard output. */
  readonly output: string;
  readonly report?: Format;
  /** A directory with saved outputs of tools. */
  readonly from?: string;
}

/**
 * `sluiced observe -o FILE`: writes what this machine, or saved outputs of one, do with packets of Services. It only reads, and takes no
 * lock.
 */
export async function observe(
  { output, report, from, ...options }: ObserveOptions,
  terminal: Terminal,
): Promise<number> {
  const config = loadConfig(options);
  const seen = from === undefined ? await ofThisMachine(config) : ofSavedFiles(config.node, from);
  if (output === '-') for (const part of printObservation(seen)) terminal.out(part);
  else {
    write(output, printObservation(seen));
    const { missing } = seen;
    const result = {
      kind: 'Observation',
      fields: { node: config.node, file: output, missing },
      text: `${output}: ${config.node}\n${missing.map(missingText).join('')}`,
    };
    answer(report ? { output: report } : {}, terminal, result);
  }
  return exitCodes.done;
}

/** A saved output may be from elsewhere, and names in it are part of the reason. */
const missingText = ({ part, why }: MissingPart): string => `${terminalText(`not observed: ${part}: ${why}`)}\n`;

async function ofThisMachine(config: SluicedConfig): Promise<Observation> {
  if (process.geteuid?.() !== 0) throw new CommandError([notRoot], exitCodes.refused);
  const { node, ...host } = await factsOf(config);
  const run = runChildren();
  return withConnections(await readObservation({ node, host }, run), run);
}

function ofSavedFiles(node: string, directory: string): Observation {
  const files = readSavedFiles(directory);
  const [proxy] = /^Kubernetes v1\.\d{1,3}\.\S{1,40}/.exec(files.get(proxyVersionFileName) ?? '') ?? [];
  const text = files.get(connectionsFileName);
  const tracked = text === undefined ? undefined : connectionsIn(text);
  const identity = { node, tools: proxy === undefined ? {} : { 'kube-proxy': proxy } };
  const seen = observationOf(identity, textsOf(files));
  if (tracked === undefined) return seen;
  if (!('why' in tracked)) return { ...seen, connections: tracked };
  const why = `${connectionsFileName}: ${tracked.why}`;
  return { ...seen, missing: [...seen.missing, { part: 'connections', why }] };
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

function write(path: string, parts: Iterable<string>): void {
  try {
    const fd = openSync(path, 'w', 0o644);
    try {
      // A disk that is nearly full takes a part of a part.
      for (const part of parts) writeFileSync(fd, part);
    } finally {
      closeSync(fd);
    }
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
