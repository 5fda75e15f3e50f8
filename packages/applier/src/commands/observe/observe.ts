import { readdirSync, readFileSync, statSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import {
  connectionsFileName,
  connectionsIn,
  type HostFacts,
  type MissingPart,
  type Observation,
  observationLimits,
  observationOf,
  printObservation,
  proxyVersionFileName,
  savedFileNames,
  textsOf,
} from '@sluice/bundle';
import { type Format, reasonOf } from '@sluice/cli';
import { type Problem, refusal, terminalText } from '@sluice/netfilter';
import { linksWithBpf, providesKubeChains } from '../../apply/admission/kernel-context.ts';
import { CommandError } from '../../command-error.ts';
import type { SluicedConfig } from '../../config.ts';
import { readObservation, withConnections } from '../../diagnose/examine/observation.ts';
import { readMachine } from '../../kernel/facts.ts';
import { runChildren } from '../../kernel/run.ts';
import { procTunables } from '../../kernel/sysctl.ts';
import { detectTools } from '../../kernel/tools.ts';
import { familyNames } from '../../ports/node-state.ts';
import { exitCodes } from '../../ports/outcome.ts';
import { openSession } from '../session/session.ts';
import { answer, type CommonOptions, loadConfig, mustBeRoot, type Terminal, writing } from '../terminal/terminal.ts';

const names: ReadonlySet<string> = new Set([
  ...Object.values(savedFileNames).flat(),
  proxyVersionFileName,
  connectionsFileName,
]);

/**
 * Reads the files of a directory that have a documented name, also compressed ones, `iptables-save.txt.gz`; others are ignored. Of a file
 * and its compressed form the file counts.
 * @param bytesMax of a file, as it was before it was compressed
 * @returns their texts, by name without `.gz`
 * @throws CommandError
 */
export function readSavedFiles(
  directory: string,
  bytesMax: number = observationLimits.fileBytesMax,
): ReadonlyMap<string, string> {
  const found = reading(directory, () => readdirSync(directory));
  const files = new Map<string, string>();
  // A file comes before its compressed form.
  for (const name of found.toSorted()) {
    const plain = name.replace(/\.gz$/, '');
    const path = join(directory, name);
    if (!names.has(plain) || files.has(plain) || !reading(path, () => statSync(path).isFile())) continue;
    files.set(
      plain,
      reading(path, () => decoded(bytesOf(path, bytesMax))),
    );
  }
  if (files.size === 0) throw new CommandError([unreadable(directory, 'it has no saved output of a tool')]);
  return files;
}

function bytesOf(path: string, bytesMax: number): Buffer {
  if (statSync(path).size > bytesMax) throw new Error(`it is larger than ${bytesMax} bytes`);
  const bytes = readFileSync(path);
  return path.endsWith('.gz') ? gunzipSync(bytes, { maxOutputLength: bytesMax }) : bytes;
}

/** UTF-8, or what a redirection of PowerShell writes. */
const decoded = (bytes: Buffer): string =>
  bytes[0] === 0xff && bytes[1] === 0xfe ? bytes.subarray(2).toString('utf16le') : bytes.toString('utf8');

function reading<T>(path: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw new CommandError([unreadable(path, reasonOf(error))]);
  }
}

const unreadable = (path: string, why: string): Problem =>
  refusal(
    'INPUT_UNREADABLE',
    `Cannot read ${path}: ${why}`,
    'Save `iptables-save` as iptables-save.txt, `ip6tables-save` as ip6tables-save.txt, `nft list ruleset` as nft.txt; the page of the bundle format names all files',
  );

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
    // It goes on where a disk that is nearly full takes a part of a part.
    await writing(output, () => writeFile(output, printObservation(seen), { mode: 0o644 }));
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
  mustBeRoot('Cannot observe this node: only root can read its rules', 'Run it as root; it changes nothing');
  const { node, ...host } = await readHostFacts(config);
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

async function readHostFacts(config: SluicedConfig): Promise<HostFacts> {
  using session = await openSession(config, 'look', () => undefined);
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
}
