import { addAll, compareText, isSetsTool, type Problem, type BundleTool } from '@sluice/netfilter';
import { nodeFile, quarantineFile, readPath, serviceFile } from '@sluice/bundle';
import type { Assembled } from '../assemble.ts';
import { assembleModel, isError, ranked, refused, type Rendered, type RenderInput, sorted } from '../render.ts';
import type { SluiceConfig } from '../model/config.ts';
import type { KubeObject } from '../model/kube.ts';
import { Memo } from '../model/memo.ts';
import type { Model } from '../model/model.ts';
import { type Normalised, normalise } from '../normalise.ts';
import { titleOf } from '../read/names.ts';
import { frontendsOf, frontendsOfText } from './frontends.ts';
import { ownerOf, type Quarantined, quarantineText, Quarantine } from './quarantine.ts';

export interface RenderedWithQuarantine extends Rendered {
  /** The quarantined objects, sorted; also in the file `quarantine.yaml`. */
  readonly quarantine: readonly Quarantined[];
  /** Undefined where an object has an error. */
  readonly basis?: RenderBasis;
}

/** What the rules of a Service depend on besides itself and its endpoints. */
export interface RenderBasis {
  readonly nodes: Model['nodes'];
  /** With the service CIDRs of the cluster. */
  readonly config: SluiceConfig;
  /** Over all Services: a render of some keeps them up to date. */
  readonly sums: Assembled['sums'];
}

/** The text of a file in the last bundle. */
export type LastText = (path: string) => string | undefined;

/**
 * Renders with quarantine: a Service with an error of its own or of its endpoints is left out of the render, and so is the newer one of
 * two that claim the same address and port. Its files of the last bundle are kept, and those of a Node.
 * @returns no files only when an error does not belong to a single object
 */
export function renderWithQuarantine(
  input: RenderInput,
  lastText: LastText,
  memo = new Memo(),
): RenderedWithQuarantine {
  const quarantined = new Quarantine();
  let known: Owners | undefined;
  const owners = (): Owners => (known ??= ownersOf([...input.base, ...input.change]));
  const found: Problem[] = [];
  for (;;) {
    const left = { ...input, base: without(input.base, quarantined), change: without(input.change, quarantined) };
    const normalised = normalise(left, memo);
    const errors = ranked(normalised.problems, input.strict).filter(isError);
    if (errors.length > 0) {
      if (!quarantineErrors(errors, normalised, quarantined, owners()))
        return { ...refused([...found, ...errors]), quarantine: [] };
      addAll(found, errors);
      continue;
    }
    const assembled = assembleModel(normalised, input, memo);
    const tooLarge = assembled.problems.filter(isError);
    if (tooLarge.length > 0) {
      if (!quarantineAll(tooLarge, quarantined, owners()))
        return { ...refused([...found, ...tooLarge]), quarantine: [] };
      addAll(found, tooLarge);
      continue;
    }
    const kept = keptFiles(quarantined, assembled.files, lastText);
    if (quarantineRivals(normalised.model, kept, quarantined)) continue;
    const problems = sorted([...found, ...normalised.problems, ...assembled.problems].map(asWarning));
    const quarantine = listOf(quarantined, kept);
    const basis = { nodes: normalised.model.nodes, config: normalised.config, sums: assembled.sums };
    return {
      files: withKept(assembled.files, kept, quarantine),
      problems,
      created: normalised.created,
      quarantine,
      ...(quarantined.isEmpty && { basis }),
    };
  }
}

/** Errors of quarantined objects are warnings. */
const asWarning = (problem: Problem): Problem => (isError(problem) ? { ...problem, level: 'warning' } : problem);

function without<T extends Parameters<Quarantine['excludes']>[0]>(
  objects: readonly T[],
  quarantined: Quarantine,
): readonly T[] {
  return quarantined.isEmpty ? objects : objects.filter((object) => !quarantined.excludes(object));
}

/** @returns whether anything was quarantined */
function quarantineErrors(
  errors: readonly Problem[],
  { lost }: Normalised,
  quarantined: Quarantine,
  owners: Owners,
): boolean {
  const isClash = ({ code }: Problem): boolean => code === 'VIP_CONFLICT' || code === 'NODE_PORT_CONFLICT';
  const others = errors.filter((problem) => !isClash(problem) || !isOfLoser(problem, lost));
  if (others.length > 0) return quarantineAll(others, quarantined, owners);
  let added = false;
  for (const { service, to } of lost) {
    // A Service that lost to a quarantined one may get the address in the next round.
    if (quarantined.has(`Service ${to}`)) continue;
    for (const problem of errors.filter(({ object }) => object === `Service ${service}`)) {
      added = quarantined.addOwner(problem, owners) || added;
    }
  }
  return added;
}

function isOfLoser({ object }: Problem, lost: Normalised['lost']): boolean {
  return lost.some(({ service }) => object === `Service ${service}`);
}

/** Title of an object → its owner. */
type Owners = ReadonlyMap<string, string | undefined>;

/** Needed for errors alone: reading it of each object may unpack it. */
const ownersOf = (objects: readonly KubeObject[]): Owners =>
  new Map(objects.map((object) => [titleOf(object), ownerOf(object)]));

/** @returns false when one of them does not belong to a single object, or nothing was quarantined */
function quarantineAll(errors: readonly Problem[], quarantined: Quarantine, owners: Owners): boolean {
  if (errors.some(({ object }) => object === undefined || !owners.has(object))) return false;
  return errors.map((problem) => quarantined.addOwner(problem, owners)).some((added) => added);
}

/** Kept files, path → text, by quarantined object. */
type Kept = ReadonlyMap<string, ReadonlyMap<string, string>>;

function keptFiles(quarantined: Quarantine, files: ReadonlyMap<string, string>, lastText: LastText): Kept {
  const tools = toolsOfProfiles(files.keys());
  return new Map(
    quarantined.titles.map((title) => {
      const [kind, key = ''] = title.split(' ');
      const paths = kind === 'Node' ? [nodeFile(key)] : servicePaths(key, tools);
      const texts = paths.map((path) => [path, lastText(path)] as const);
      return [title, new Map(texts.filter((entry): entry is [string, string] => entry[1] !== undefined))];
    }),
  );
}

function servicePaths(key: string, tools: ReturnType<typeof toolsOfProfiles>): readonly string[] {
  const [namespace = '', name = ''] = key.split('/');
  return [...tools].flatMap(([profile, list]) => [...list].map((tool) => serviceFile(profile, namespace, name, tool)));
}

/** The tools of each profile's base files; files of another mode or family are not kept. */
function toolsOfProfiles(paths: Iterable<string>): ReadonlyMap<string, ReadonlySet<BundleTool>> {
  const tools = new Map<string, Set<BundleTool>>();
  for (const path of paths) {
    const what = readPath(path);
    if (what?.kind !== 'base') continue;
    const list = tools.get(what.profile) ?? new Set();
    list.add(what.tool);
    if (isSetsTool(what.tool)) list.add('ipvs');
    tools.set(what.profile, list);
  }
  return tools;
}

/** Quarantines Services that claim an address or a node port of a kept file. */
function quarantineRivals(model: Model, kept: Kept, quarantined: Quarantine): boolean {
  const taken = new Map<string, string>();
  for (const [title, texts] of kept)
    for (const text of texts.values()) for (const frontend of frontendsOfText(text)) taken.set(frontend, title);
  if (taken.size === 0) return false;
  let added = false;
  for (const service of [model.services, ...(model.older?.values() ?? [])].flat()) {
    const title = `Service ${service.namespace}/${service.name}`;
    const frontend = [...frontendsOf(service)].find((one) => taken.has(one));
    if (frontend === undefined) continue;
    const message = `Cannot use ${frontend} for two Services: ${taken.get(frontend)}, which is quarantined, still has it`;
    const code = frontend.startsWith('node port') ? 'NODE_PORT_CONFLICT' : 'VIP_CONFLICT';
    added = quarantined.add(title, { code, object: title, message }) || added;
  }
  return added;
}

function listOf(quarantined: Quarantine, kept: Kept): readonly Quarantined[] {
  return quarantined.titles.map((object) => ({
    object,
    rules: (kept.get(object)?.size ?? 0) > 0 ? 'last good' : 'none',
    reasons: quarantined.reasonsOf(object),
  }));
}

function withKept(
  files: ReadonlyMap<string, string>,
  kept: Kept,
  quarantine: readonly Quarantined[],
): ReadonlyMap<string, string> {
  if (quarantine.length === 0) return files;
  const all = new Map(files);
  for (const texts of kept.values()) for (const [path, text] of texts) all.set(path, text);
  all.set(quarantineFile, quarantineText(quarantine));
  return new Map([...all].toSorted(([a], [b]) => compareText(a, b)));
}
