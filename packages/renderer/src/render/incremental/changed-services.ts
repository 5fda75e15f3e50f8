import { bundleLimits } from '@sluice/bundle';
import { compareText, differing, type Layered } from '@sluice/netfilter';
import { sizeProblems, slotProblems } from '../assemble-limits.ts';
import { nodesByName } from '../compile/service-files.ts';
import { servesExternalIPs } from '../model/external-ips.ts';
import type { KubeObject } from '../model/kube.ts';
import type { Memo } from '../model/memo.ts';
import type { Model } from '../model/model.ts';
import { profilesInUse } from '../model/profiles-in-use.ts';
import { modelOf } from '../normalise.ts';
import { backingOf } from '../normalise/backing.ts';
import { serviceTooLarge } from '../normalise/service-size.ts';
import { type ServiceCandidate, viewOf } from '../normalise/views.ts';
import { serviceCompiler } from '../planes.ts';
import type { RenderBasis } from '../quarantine/with-quarantine.ts';
import { readServiceOnce, readSliceOnce } from '../read/read.ts';
import type { ReadService } from '../read/read-service.ts';
import type { ReadSlice } from '../read/slice.ts';
import { fleetOf } from '../select/guards.ts';
import { behavioursOf, servicesOf } from '../versions/behaviour.ts';
import { ClusterIndex, type ListDifference } from './cluster-index.ts';

/** Some Services of a bundle with their files. */
interface ServicesPart {
  readonly model: Model;
  /** Path → text. */
  readonly files: ReadonlyMap<string, string>;
}

/**
 * The files of some Services, as a render of all would make them.
 * @param keys `namespace/name`; those of Services without rules are passed over
 */
function renderServices(
  keys: Iterable<string>,
  index: ClusterIndex,
  { nodes, config }: RenderBasis,
  memo: Memo,
): ServicesPart {
  const candidates = [...keys].flatMap((key) => candidateOf(key, index) ?? []);
  const profiles = profilesInUse({ nodes }, config);
  const isOpen = servesExternalIPs({ nodes }, config);
  const model = modelOf(
    nodes,
    behavioursOf(profiles).map((version) => viewOf({ version, isOpen }, candidates, memo)),
  );
  const fleet = memo.of('fleet', nodes, [], () => fleetOf(nodes));
  const files = profiles.flatMap((profile) => {
    const filesOf = serviceCompiler(profile, { names: memo.names, fleet, nodes: nodesByName(nodes) }, memo);
    return servicesOf(model, profile).flatMap((service) => filesOf(service));
  });
  return { model, files: new Map(files) };
}

/** The Service with its slices; undefined where it has no rules. */
function candidateOf(key: string, index: ClusterIndex): ServiceCandidate | undefined {
  const found = index.service(key);
  if (found === undefined || found.numbers.clusterIPs.length === 0 || found.service.ports.length === 0)
    return undefined;
  const layered = { services: new Map([[key, found.service]]), slices: index.slicesOf(key) };
  return { ...found, slices: backingOf(layered, []).get(key) ?? [] };
}

/** Whether a Service is too large together with its slices. */
function isTooLarge(key: string, index: ClusterIndex): boolean {
  const found = index.service(key);
  return found !== undefined && serviceTooLarge(found.service, index.slicesOf(key)) !== undefined;
}

/** Puts Services into the sums of the profiles, or takes them out. */
function count({ model }: ServicesPart, { nodes, config, sums }: RenderBasis, by: 1 | -1): void {
  for (const profile of profilesInUse({ nodes }, config))
    for (const service of servicesOf(model, profile)) sums.get(profile.name)?.count(service, by);
}

/** A render without errors, from which the next one may be made. */
export interface LastRender {
  /** All objects of the cluster. */
  readonly objects: ReadonlyMap<string, KubeObject>;
  readonly files: Layered<string>;
  readonly basis: RenderBasis;
  /** Those of the memo, with the chains of all files: in another registry a collision would not be found. */
  readonly names: Memo['names'];
  /** Made by the first render that needs it, and changed by the next ones. */
  readonly index?: LiveIndex;
}

interface LiveIndex {
  readonly cluster: ClusterIndex;
  /** The size of all files. */
  readonly bytes: number;
}

/**
 * Renders the Services that changed, or whose EndpointSlices did. Everything else stays as it is, because a file depends on its Service and
 * the basis only, and the basis on Services only by the labels that their weights name, as long as there are Nodes.
 * @param memo of the last render
 * @returns undefined where everything must be rendered: another object changed, endpoints name the nodes, a Service may have an effect on
 * others, or the result would have a problem
 */
export function renderChangedServices(
  last: LastRender,
  objects: ReadonlyMap<string, KubeObject>,
  memo: Memo,
): LastRender | undefined {
  const difference = readDifference(changedObjects(last.objects, objects), memo);
  const known = indexed(last, memo);
  if (difference === undefined || known === undefined) return undefined;
  const { slices, services } = difference;
  if (weightLabels(services.removed) !== weightLabels(services.added)) return undefined;
  const { index } = known;
  const keys = new Set([
    ...[...slices.removed, ...slices.added].map(({ service }) => service),
    ...[...services.removed, ...services.added].map(({ key }) => key),
  ]);
  const partOf = (): ServicesPart => renderServices(keys, index.cluster, last.basis, memo);
  const withSums = ({ files }: ServicesPart): ServicesPart['files'] =>
    new Map([...files, ...[...last.basis.sums.values()].flatMap((sum) => sum.files())]);
  const before = partOf();
  const old = withSums(before);
  if (!index.cluster.replaceSlices(slices) || !index.cluster.replaceServices(services)) return undefined;
  if ([...keys].some((key) => isTooLarge(key, index.cluster))) return undefined;
  const after = partOf();
  // What this part makes of the last objects is what they were rendered to: the part misses nothing.
  if ([...old].some(([path, text]) => last.files.get(path) !== text)) return undefined;
  count(before, last.basis, -1);
  count(after, last.basis, 1);
  const next = withSums(after);
  const bytes = index.bytes - bytesOf(old.values()) + bytesOf(next.values());
  const gone = [...old.keys()].filter((path) => !next.has(path));
  const files = last.files.with([...gone.map((path) => [path, undefined] as const), ...next]);
  if (bytes > bundleLimits.treeBytesMax || files.size > bundleLimits.filesMax) return undefined;
  if (hasProblem(after, index.cluster, last.basis, memo)) return undefined;
  memo.tidy();
  return { ...last, objects, files, index: { cluster: index.cluster, bytes } };
}

/**
 * The render with its index.
 * @param memo of that render
 * @returns undefined where no change can be rendered alone
 */
export function indexed(last: LastRender, memo: Memo): Required<LastRender> | undefined {
  if (memo.names !== last.names) return undefined;
  const index = last.index ?? indexOf(last, memo);
  return index?.cluster.hasNodes ? { ...last, index } : undefined;
}

function changedObjects(
  before: ReadonlyMap<string, KubeObject>,
  after: ReadonlyMap<string, KubeObject>,
): ListDifference<KubeObject> {
  const keys = differing(before, after);
  const of = (map: ReadonlyMap<string, KubeObject>): readonly KubeObject[] => keys.flatMap((key) => map.get(key) ?? []);
  return { removed: of(before), added: of(after) };
}

interface ClusterDifference {
  readonly slices: ListDifference<ReadSlice>;
  readonly services: ListDifference<ReadService>;
}

/** The changed EndpointSlices and Services; undefined where another object changed, one is invalid, or a slice has no Service. */
function readDifference({ removed, added }: ListDifference<KubeObject>, memo: Memo): ClusterDifference | undefined {
  const [before, after] = [readParts(removed, memo), readParts(added, memo)];
  return (
    before &&
    after && {
      slices: { removed: before.slices, added: after.slices },
      services: { removed: before.services, added: after.services },
    }
  );
}

function readParts(
  objects: readonly KubeObject[],
  memo: Memo,
): { readonly slices: readonly ReadSlice[]; readonly services: readonly ReadService[] } | undefined {
  const slices: ReadSlice[] = [];
  const services: ReadService[] = [];
  for (const object of objects) {
    const service = object.kind === 'Service' ? readServiceOnce(object, memo) : undefined;
    const slice = object.kind === 'EndpointSlice' ? readSliceOnce(object, memo) : undefined;
    if (service) services.push(service);
    else if (slice && slice.service !== '') slices.push(slice);
    else return undefined;
  }
  return { slices, services };
}

/** The labels of nodes that weights name, as one text. */
const weightLabels = (services: readonly ReadService[]): string =>
  [...new Set(services.flatMap(({ weights }) => weights.map(({ label }) => label)))].toSorted(compareText).join();

function indexOf({ objects, files }: LastRender, memo: Memo): LiveIndex | undefined {
  const cluster = ClusterIndex.of(objects.values(), memo);
  return cluster && { cluster, bytes: bytesOf(files.values()) };
}

/** All texts are ASCII. */
function bytesOf(texts: Iterable<string>): number {
  let bytes = 0;
  for (const { length } of texts) bytes += length;
  return bytes;
}

/** Whether a render of everything would find an error, beyond those of the whole tree. */
function hasProblem(
  { model, files }: ServicesPart,
  cluster: ClusterIndex,
  { config }: RenderBasis,
  memo: Memo,
): boolean {
  const hasVip = [model.services, ...(model.older?.values() ?? [])]
    .flat()
    .some(({ ports }) =>
      ports.some(({ families }) =>
        Object.values(families).some(({ endpoints }) => endpoints.some(({ address }) => cluster.hasClusterIP(address))),
      ),
    );
  return (
    hasVip ||
    memo.names.collisions().length > 0 ||
    sizeProblems([...files]).length > 0 ||
    (config.profiles.some(({ nftables }) => nftables) && slotProblems(model.services).length > 0)
  );
}
