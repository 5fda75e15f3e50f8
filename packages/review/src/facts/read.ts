import { describeLines, describeRules, readPath, serviceFile, serviceOf } from '@sluice/bundle';
import {
  families,
  type BundleTool,
  type Family,
  hasLines,
  isBesideServers,
  modeFacts,
  perObject,
} from '@sluice/netfilter';
import { rulesAt, type ViewedFiles } from '../bundle/files.ts';
import { commentBlockOf, notesFor, notesOf } from '../bundle/header.ts';
import type { Memory } from '../bundle/memory.ts';
import { toolAt, tools } from '../bundle/tools.ts';
import type { BundleView } from '../bundle/view.ts';
import type { ServiceFacts } from './facts.ts';
import { factsOf } from './of-services.ts';

/** A Service in one family of one profile. */
export interface ServicePlace {
  readonly profile: string;
  /** `shop/web` */
  readonly service: string;
  readonly family: Family;
}

/** The families of which a file of a Service may have rules or virtual servers. */
export function familiesOf(tool: BundleTool): readonly Family[] {
  return hasLines(tool) ? families : tools.flatMap(([one, family]) => (one === tool ? family : []));
}

/**
 * The facts of a Service from one of its files, by family; an `.ipset` is read with the `.ipvs` beside it.
 * @throws ReviewStopped when nodes would refuse the file
 */
export function factsAt(view: ViewedFiles, path: string): readonly ServiceFacts[] {
  const what = readPath(path);
  if (what?.kind !== 'service' || isBesideServers(what.tool)) return [];
  return familiesOf(what.tool).map((family) => factsOfFile(view, path, family));
}

/** The last facts of a path and family, with the texts that they were read from. */
interface KnownFacts {
  readonly texts: readonly string[];
  readonly facts: ServiceFacts;
}

/** Bundles that are compared share a memory, and most of their files: those are read once. */
const knownFacts = perObject((_memory: Memory) => new Map<string, readonly KnownFacts[]>());

/** @throws ReviewStopped when nodes would refuse the file */
function factsOfFile(view: ViewedFiles, path: string, family: Family): ServiceFacts {
  const known = knownFacts(view.memory);
  const key = `${family} ${path}`;
  const texts = [path, path.replace(/ipvs$/, 'ipset')].map((one) => view.files.get(one) ?? '');
  const found = known.get(key)?.find((one) => one.texts.every((text, at) => text === texts[at]));
  if (found) return found.facts;
  const facts = hasLines(toolAt(path).tool) ? factsOfLines(view, path, family) : factsOfRules(view, path, family);
  known.set(key, [...(known.get(key) ?? []), { texts, facts }]);
  return facts;
}

/**
 * The facts of a Service in a profile and family.
 * @returns undefined when the Service has no file there, or, in modes ipvs and nftables, no port in the family
 * @throws ReviewStopped when nodes would refuse the file
 */
export function factsIn(view: BundleView, { profile, service, family }: ServicePlace): ServiceFacts | undefined {
  const [namespace = '', name = ''] = service.split('/');
  const mode = view.profiles.get(profile)?.mode ?? 'iptables';
  const tool = modeFacts[mode].serviceTool(family);
  const path = serviceFile(profile, namespace, name, tool);
  // A file of rules is of one family.
  if (!hasLines(tool)) return view.files.has(path) ? factsOfFile(view, path, family) : undefined;
  const facts = factsOfFile(view, path, family);
  return facts.ports.length === 0 ? undefined : facts;
}

/** Rules name their ports themselves. */
function factsOfRules(view: ViewedFiles, path: string, family: Family): ServiceFacts {
  const file = rulesAt(view, path);
  return factsOf(serviceOf(path), family, describeRules(family, file), { ...notesOf(file.header), ports: [] });
}

/** @param path of an `.ipvs` or `.nft` file */
function factsOfLines({ files }: ViewedFiles, path: string, family: Family): ServiceFacts {
  const [text, ipset] = [path, path.replace(/ipvs$/, 'ipset')].map((one) => files.get(one) ?? '') as [string, string];
  const notes = notesFor(family, notesOf(commentBlockOf(text === '' ? ipset : text)));
  return factsOf(serviceOf(path), family, describeLines(family, path, text, ipset), notes);
}
