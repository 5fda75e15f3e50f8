import {
  commentBlockOf,
  describeLines,
  describeRules,
  type HeaderNotes,
  notesFor,
  notesOf,
  placeOfEndpoint,
  type PortNote,
  readPath,
  serviceFile,
  serviceOf,
} from '@sluice/bundle';
import {
  appendTo,
  families,
  type BundleTool,
  type Family,
  hasLines,
  isSetsTool,
  modeFacts,
  perObject,
  compareText,
  type DescribedFrontend,
  printEndpoint,
} from '@sluice/netfilter';
import { rulesAt, type ViewedFiles } from '../bundle/files.ts';
import type { Memory } from '../bundle/memory.ts';
import { toolAt, tools } from '../bundle/tools.ts';
import type { BundleView } from '../bundle/view.ts';
import { type ServiceFacts, type AddressFacts, type EndpointFacts, type PortFacts, portKey } from './facts.ts';

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
 * @throws Stopped when nodes would refuse the file
 */
export function factsAt(view: ViewedFiles, path: string): readonly ServiceFacts[] {
  const what = readPath(path);
  if (what?.kind !== 'service' || isSetsTool(what.tool)) return [];
  return familiesOf(what.tool).map((family) => factsOfFile(view, path, family));
}

/** The last facts of a path and family, with the texts that they were read from. */
interface KnownFacts {
  readonly texts: readonly string[];
  readonly facts: ServiceFacts;
}

/** Bundles that are compared share a memory, and most of their files: those are read once. */
const knownFacts = perObject((_memory: Memory) => new Map<string, readonly KnownFacts[]>());

/** @throws Stopped when nodes would refuse the file */
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
 * @throws Stopped when nodes would refuse the file
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

/**
 * The facts of one Service in one family, over all nodes.
 * @param service `shop/web`
 * @param frontends as its lines describe them
 * @param notes of its comment block, with the ports that its lines alone do not name
 */
function factsOf(
  service: string,
  family: Family,
  frontends: readonly DescribedFrontend[],
  notes: HeaderNotes,
): ServiceFacts {
  const declared = new Map(notes.ports.map((port) => [keyOfNote(service, port), port]));
  const byPort = new Map<string, DescribedFrontend[]>([...declared.keys()].map((key) => [key, []]));
  // Those with an address first: they give the key of the port that the others belong to.
  const [others, addressed] = [true, false].map((isOnNode) =>
    frontends.filter(({ address }) => (address === undefined) === isOnNode),
  ) as [DescribedFrontend[], DescribedFrontend[]];
  for (const frontend of [...addressed, ...others]) {
    if (isOfAllPorts(frontend)) continue;
    const key = keyOf(service, frontend, notes, [...byPort.keys()]);
    appendTo(byPort, key, frontend);
  }
  const shared = frontends.filter(isOfAllPorts);
  const ports = [...byPort]
    .toSorted(([a], [b]) => compareText(a, b))
    .map(([key, own]) => portFacts(key, [...own, ...shared], declared.get(key), notes));
  return { service, family, ...(notes.type === undefined ? {} : { type: notes.type }), ports };
}

const isHealthCheck = ({ kind }: DescribedFrontend): boolean => kind === 'health-check';

/** A health check belongs to the whole Service; one that names a port is kept with that port. */
const isOfAllPorts = (frontend: DescribedFrontend): boolean =>
  isHealthCheck(frontend) && frontend.service === undefined;

function keyOfNote(service: string, { name, port, protocol }: Pick<PortNote, 'name' | 'port' | 'protocol'>): string {
  return portKey(`${service}${name === '' ? '' : `:${name}`}`, port, protocol);
}

/** The port that a frontend belongs to. Where nothing names it, the comment block does, by number and protocol. */
function keyOf(
  service: string,
  { service: name, protocol, address, port }: DescribedFrontend,
  { ports }: HeaderNotes,
  known: readonly string[],
): string {
  if (name !== undefined) {
    const same = address === undefined ? known.find((key) => key.startsWith(`${name} `)) : undefined;
    return same ?? portKey(name, port, protocol);
  }
  const isIt = (note: PortNote): boolean =>
    note.protocol === protocol && (address === undefined ? note.nodePort : note.port) === port;
  return keyOfNote(service, ports.find(isIt) ?? { name: '', port, protocol });
}

function portFacts(
  key: string,
  all: readonly DescribedFrontend[],
  declared: PortNote | undefined,
  notes: HeaderNotes,
): PortFacts {
  const frontends = all.filter((one) => !isHealthCheck(one));
  const addresses = frontends.flatMap((one) => addressFacts(one, notes));
  const shown = frontends.flatMap(({ ranges }) => (ranges ? [ranges] : []));
  const isBalanced = addresses.some(({ kind }) => kind === 'load-balancer');
  const affinity = new Set(frontends.flatMap(({ affinitySeconds }) => affinitySeconds));
  const schedulers = new Set(frontends.flatMap(({ scheduler }) => scheduler ?? []));
  const external = frontends.flatMap(({ externalPolicy }) => externalPolicy ?? []);
  return {
    key,
    protocol: (frontends[0] ?? declared ?? all[0])?.protocol ?? 'tcp',
    addresses: addresses.toSorted((a, b) => compareText(a.text, b.text)),
    nodePort: frontends.findLast(({ address }) => address === undefined)?.port ?? 0,
    endpoints: endpointFacts(frontends, notes),
    internalPolicy: frontends.findLast(({ internalPolicy }) => internalPolicy)?.internalPolicy ?? notes.internalPolicy,
    externalPolicy: external.find((policy) => policy === 'Local') ?? external[0] ?? notes.externalPolicy,
    ...(affinity.size === 0 ? {} : { affinity: [...affinity].toSorted((a, b) => a - b) }),
    ...(schedulers.size === 0 ? {} : { scheduler: [...schedulers].toSorted(compareText).join(', ') }),
    sourceRanges:
      isBalanced && shown.length > 0 ? [...new Set(shown.flat())].toSorted(compareText) : notes.sourceRanges,
    healthCheckPort: all.findLast(isHealthCheck)?.port ?? 0,
  };
}

/** None for a node port. */
function addressFacts({ kind, address, port }: DescribedFrontend, notes: HeaderNotes): readonly AddressFacts[] {
  if (address === undefined || kind === 'health-check') return [];
  const guess = notes.loadBalancerAddresses.includes(address) ? 'load-balancer' : 'external';
  return [{ kind: kind ?? guess, text: printEndpoint(address, port) }];
}

/** Weight 1, kube-proxy's weight of every endpoint, is left out. */
function endpointFacts(frontends: readonly DescribedFrontend[], notes: HeaderNotes): readonly EndpointFacts[] {
  const weights = new Map<string, Set<number>>();
  for (const { text, weight } of frontends.flatMap(({ endpoints }) => endpoints))
    weights.set(text, (weights.get(text) ?? new Set<number>()).add(weight));
  return [...weights]
    .toSorted(([a], [b]) => compareText(a, b))
    .map(([text, given]) => {
      const weight = [...given].toSorted((a, b) => a - b).join(', ');
      return { text, ...placeOfEndpoint(text, notes), ...(weight === '1' ? {} : { weight }) };
    });
}
