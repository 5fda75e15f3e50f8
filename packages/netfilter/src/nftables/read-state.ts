import { perObject } from '../per-object.ts';
import { compareText, FileProblems, type Problem } from '../problem.ts';
import { addAll } from '../add-all.ts';
import type { RuleError } from '../rules/rule.ts';
import { differingFiles } from '../virtual/differing-files.ts';
import { refusedLine, type ResolvedLine, type ResolvedVirtualFile } from '../virtual/line.ts';
import { inOnePiece } from '../in-one-piece.ts';
import { Layered } from '../layered.ts';
import { addressesHere, frontendLines, readFrontendKey } from './frontend.ts';
import { disjoint } from './networks.ts';
import { isBaseElement, type NftElement, readNftLine } from './read-line.ts';
import { nftLimits } from './limits.ts';
import { readNftScheduler } from './scheduler.ts';
import type { NftState } from './state.ts';
import { withNewestTable } from './table.ts';

type NftRead = NftState | { readonly problems: readonly Problem[] };

/** The files that were read last, so that the next ones cost what changed. */
export class NftMemory {
  #last: { readonly files: readonly ResolvedVirtualFile[]; readonly state: NftState } | undefined;

  /** @returns as `readNftFiles`, with frontends in layers */
  read(files: readonly ResolvedVirtualFile[]): NftRead {
    const read = (this.#last && readAgain(this.#last.files, this.#last.state, files)) ?? readWhole(files);
    this.#last = 'problems' in read ? undefined : { files, state: read };
    return read;
  }
}

function readWhole(files: readonly ResolvedVirtualFile[]): NftRead {
  const read = readNftFiles(files);
  return 'problems' in read ? read : { ...read, frontends: Layered.of(read.frontends) };
}

/**
 * Reads the state of a node in mode nftables.
 * @param files of the node, in the order of loading: `base/first.nft` as one line `table …`, those of Services, `base/last.nft`
 * @param memory of earlier files; one for each node
 * @returns the state, or every problem (`RULE_REFUSED`, with its line)
 */
export function readNft(files: readonly ResolvedVirtualFile[], memory?: NftMemory): NftRead {
  const read = memory ? memory.read(files) : readNftFiles(files);
  if ('problems' in read) return read;
  const tables = read.settings.filter((one) => one.startsWith('table '));
  if (tables.length !== 1)
    return { problems: [refusedLine(files[0]?.path ?? 'base/first.nft', 1, 'the profile has no base/first.nft')] };
  return { settings: [...withNewestTable(tables), ...settingsOf(read.settings)], frontends: read.frontends };
}

/** Reads some files of a node, without its table: the settings are those of these files, as they come. */
export function readNftFiles(files: readonly ResolvedVirtualFile[]): NftRead {
  const [only] = files;
  if (only && files.length === 1) return readNftFile(only);
  const problems: Problem[] = [];
  const settings: string[] = [];
  const frontends = new Map<string, readonly string[]>();
  for (const { path, lines } of files) {
    const file = fileOf(lines);
    addAll(problems, file.problems.map(inFile(path)));
    addAll(settings, file.settings);
    for (const [key, own] of file.frontends) {
      if (frontends.has(key)) problems.push(refusedLine(path, 1, `another file has frontend ${key}, too`));
      else frontends.set(key, own);
    }
  }
  return problems.length > 0 ? { problems } : { settings, frontends };
}

function readNftFile({ path, lines }: ResolvedVirtualFile): NftRead {
  const { settings, frontends, problems } = fileOf(lines);
  return problems.length > 0 ? { problems: problems.map(inFile(path)) } : { settings, frontends };
}

/**
 * What lines have on all nodes together: `NftState` of no node, so that contradictions are not refused. Lines that cannot be read are left
 * out.
 * @param lines without guards
 */
export function nftOnAllNodes(lines: readonly string[]): NftState {
  const building = new Building();
  for (const line of lines) addLine(building, line, 0);
  const frontends = [...building.frontends].map(([key, parts]) => [key, linesOf(key, parts, building)] as const);
  return { settings: building.settings, frontends: new Map(frontends) };
}

/** @returns undefined if that is no less work than reading all of them, or settings changed, or a file is to be refused */
function readAgain(
  before: readonly ResolvedVirtualFile[],
  state: NftState,
  files: readonly ResolvedVirtualFile[],
): NftState | undefined {
  const differing = differingFiles(before, files);
  // Old files are read again, too.
  if (2 * differing.length > files.length) return undefined;
  const changed = differing.map(({ before: old, after }) => ({
    old: old ? fileOf(old.lines) : noFile,
    updated: after ? fileOf(after.lines) : noFile,
  }));
  const changes = new Map<string, readonly string[] | undefined>();
  for (const { old } of changed) for (const key of old.frontends.keys()) changes.set(key, undefined);
  for (const { old, updated } of changed) {
    if (updated.problems.length > 0 || old.settings.join('\n') !== updated.settings.join('\n')) return undefined;
    for (const [key, lines] of updated.frontends) {
      const isOfAnother = changes.has(key) ? changes.get(key) !== undefined : state.frontends.has(key);
      if (isOfAnother) return undefined;
      changes.set(key, lines);
    }
  }
  return { settings: state.settings, frontends: Layered.of(state.frontends).with(changes) };
}

/** All settings but the table, in an order of their own, without networks that lie in others. */
function settingsOf(settings: readonly string[]): readonly string[] {
  const kinds = ['pods', 'keep', 'node', 'cidr'].flatMap((kind) => {
    const own = settings.filter((one) => one.startsWith(`${kind} `)).map((one) => one.slice(kind.length + 1));
    return disjoint(own).map((network) => `${kind} ${network}`);
  });
  const ports = settings.filter((one) => one.startsWith('health '));
  return [...kinds, ...[...new Set(ports)].toSorted(compareText)];
}

const inFile =
  (path: string) =>
  (problem: Problem): Problem =>
    problem.at ? { ...problem, at: { ...problem.at, file: path } } : problem;

interface NftFile {
  readonly settings: readonly string[];
  readonly frontends: ReadonlyMap<string, readonly string[]>;
  /** Without the path: equal lines may be those of another file. */
  readonly problems: readonly Problem[];
}

const noFile: NftFile = { settings: [], frontends: new Map(), problems: [] };

/** Frontends under construction. */
class Building {
  readonly settings: string[] = [];
  readonly clusterIPs = new Set<string>();
  /** Of endpoints on this node; those of none of its frontends have no effect. */
  readonly here = new Set<string>();
  readonly frontends = new Map<string, FrontendParts>();

  part(key: string, line: number): FrontendParts {
    const known = this.frontends.get(key);
    if (known) return known;
    const updated: FrontendParts = {
      line,
      kinds: new Set(),
      choices: new Set(),
      ranges: [],
      endpoint: [],
      local: [],
      weights: new Map(),
      isWeightTwofold: false,
    };
    this.frontends.set(key, updated);
    return updated;
  }
}

interface FrontendParts {
  /** The first line that names it. */
  readonly line: number;
  readonly kinds: Set<NftElement['kind']>;
  /** How its lists choose: `affinity 600`, `maglev 1009`, `random`. */
  readonly choices: Set<string>;
  readonly ranges: string[];
  readonly endpoint: string[];
  readonly local: string[];
  /** Of endpoints, also 1. */
  readonly weights: Map<string, number>;
  isWeightTwofold: boolean;
  none?: 'refuse' | 'drop';
}

/** Frontends keep the identity of their lines as long as their file does. */
const fileOf = perObject((lines: readonly ResolvedLine[]): NftFile => {
  const building = new Building();
  const found = new FileProblems();
  const complain = (line: number, why: string): void => found.add(refusedLine('', line, why));
  for (const { text, line } of lines) {
    const wrong = addLine(building, text, line);
    if (wrong !== undefined) complain(line, wrong.error);
  }
  const frontends = new Map<string, readonly string[]>();
  for (const [key, parts] of building.frontends) {
    const wrong = refuseFrontend(parts);
    if (wrong !== undefined) complain(parts.line, `frontend ${key} ${wrong}`);
    // In one piece: parts would keep the whole text of the file.
    else frontends.set(inOnePiece(key), linesOf(key, parts, building).map(inOnePiece));
  }
  return { settings: building.settings, frontends, problems: found.isEmpty ? [] : found.all };
});

/**
 * What a file of a Service has for itself, in the order of the file: `frontend 10.96.0.10 . tcp . 80`, and `health 32090` for a port of
 * health checks.
 */
export function nftNames({ lines }: ResolvedVirtualFile): readonly string[] {
  const { frontends, settings } = fileOf(lines);
  const ports = settings.filter((one) => one.startsWith('health '));
  return [...[...frontends.keys()].map((key) => `${frontendMark}${key}`), ...new Set(ports)];
}

/** Before the key of a frontend, in `nftNames`. */
export const frontendMark = 'frontend ';

function addLine(building: Building, text: string, line: number): RuleError | undefined {
  if (text.startsWith('table ')) {
    building.settings.push(text);
    return undefined;
  }
  const read = readNftLine(text);
  if ('error' in read) return read;
  for (const element of read.elements) addElement(building, element, line);
  return undefined;
}

function addElement(building: Building, element: NftElement, line: number): void {
  if (isBaseElement(element)) {
    const { kind, network } = element as Extract<NftElement, { network: string }>;
    building.settings.push(`${kind} ${network}`);
    return;
  }
  if (element.kind === 'health') {
    building.settings.push(`health ${element.port}`);
    return;
  }
  if (element.kind === 'cluster') {
    building.clusterIPs.add(element.address);
    return;
  }
  if (element.kind === 'loop') {
    building.here.add(element.address);
    return;
  }
  if (!('key' in element)) return;
  const parts = building.part(element.key, line);
  parts.kinds.add(element.kind);
  switch (element.kind) {
    case 'svc':
    case 'out':
      parts.choices.add(choiceOf(element));
      break;
    case 'none':
      // A Service without any endpoint has `refuse`, and where it has some the other lines say `drop`.
      parts.none = parts.none === 'drop' ? 'drop' : element.verdict;
      break;
    case 'allow':
      parts.ranges.push(element.range);
      break;
    case 'endpoint':
    case 'local':
      addEndpoint(parts, element);
      break;
    case 'always':
    case 'near':
    case 'fw':
  }
}

type ListElement = Extract<NftElement, { kind: 'svc' | 'out' }>;

const choiceOf = ({ affinitySeconds, scheduler }: Pick<ListElement, 'affinitySeconds' | 'scheduler'>): string =>
  affinitySeconds === undefined ? (scheduler ?? 'random') : `affinity ${affinitySeconds}`;

type EndpointElement = Extract<NftElement, { kind: 'endpoint' | 'local' }>;

function addEndpoint(parts: FrontendParts, { kind, endpoint, weight = 1 }: EndpointElement): void {
  parts[kind].push(endpoint);
  parts.isWeightTwofold ||= (parts.weights.get(endpoint) ?? weight) !== weight;
  parts.weights.set(endpoint, weight);
}

/** Why lines do not describe one frontend; undefined: they do. */
function refuseFrontend(parts: FrontendParts): string | undefined {
  const { kinds, choices, endpoint, local, none } = parts;
  const has = (kind: NftElement['kind']): boolean => kinds.has(kind);
  if (choices.size > 1) return 'chooses endpoints in different ways';
  if (parts.isWeightTwofold) return 'has different weights of one endpoint';
  if (has('near') && has('always')) return 'is in near and in always';
  if (has('out') && !has('near')) return 'is in out, but not in near';
  if (has('allow') !== has('fw')) return 'is in only one of fw and allow';
  if (endpoint.length > 0 && !has('svc')) return 'has endpoints, but is not in svc';
  if (local.length > 0 && !has('out')) return 'has local endpoints, but is not in out';
  if (new Set(endpoint).size < endpoint.length || new Set(local).size < local.length) return 'has an endpoint twice';
  const longest = Math.max(endpoint.length, local.length);
  if (longest > nftLimits.endpointsMax) return `has ${longest} endpoints; the limit is ${nftLimits.endpointsMax}`;
  const isServed = endpoint.length > 0 && (local.length > 0 || !has('near'));
  return isServed || none ? undefined : 'has no endpoint on this node, and is not in none';
}

function linesOf(key: string, parts: FrontendParts, { clusterIPs, here }: Building): readonly string[] {
  const { kinds, choices, ranges, endpoint, local, none } = parts;
  const [choice = 'random'] = choices;
  const [, seconds] = /^affinity (\d+)$/.exec(choice) ?? [];
  const scheduler = readNftScheduler(choice);
  const weights = [...parts.weights].filter(([, weight]) => weight > 1);
  const isServed = endpoint.length > 0 && (local.length > 0 || !kinds.has('near'));
  return frontendLines({
    isClusterIP: clusterIPs.has(readFrontendKey(key).address),
    ...(kinds.has('near') ? { outside: 'local' } : kinds.has('always') ? { outside: 'cluster' } : {}),
    ...(seconds === undefined ? {} : { affinitySeconds: Number(seconds) }),
    ...(scheduler ? { scheduler } : {}),
    ...(none && !isServed ? { none } : {}),
    ranges: disjoint(ranges),
    endpoints: endpoint,
    local,
    here: here.size === 0 ? [] : addressesHere({ endpoints: endpoint, local }, (address) => here.has(address)),
    ...(weights.length > 0 ? { weights: new Map(weights) } : {}),
  });
}
