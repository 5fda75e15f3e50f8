import { addAll, compareProblems, compareText, type Problem } from '@sluice/bundle';
import type { Allocation } from './allocate/allocation.ts';
import type { Config } from './config.ts';
import type { KubeObject } from './kube.ts';
import { type Layered, layer } from './layer/layer.ts';
import { Memo } from './memo.ts';
import type { Model, Service } from './model.ts';
import { backingOf } from './normalise/backing.ts';
import { findClashes, type Lost } from './normalise/clashes.ts';
import { findDifferences } from './normalise/differences.ts';
import { type Completeness, findGaps } from './normalise/gaps.ts';
import { makeNodes, type NodeSources } from './normalise/nodes.ts';
import { giveNumbers, hasRules } from './normalise/numbers.ts';
import { orphans } from './normalise/orphans.ts';
import { passedOver } from './normalise/passed-over.ts';
import { findServiceEndpoints } from './normalise/service-endpoints.ts';
import { findOutside } from './normalise/outside.ts';
import { findShadows } from './normalise/shadows.ts';
import { makeService } from './normalise/service.ts';
import { leftOut, waits } from './normalise/waits.ts';
import { readObjects } from './read/read.ts';
import type { ReadService } from './read/service.ts';
import type { ReadSlice } from './read/slice.ts';

export interface NormaliseInput {
  /** What the cluster has now; empty: there is only the change. */
  readonly base: readonly KubeObject[];
  /** What `-f` brings. */
  readonly change: readonly KubeObject[];
  readonly config: Config;
  readonly allocations: readonly Allocation[];
  /** Give numbers to Services that lack them: the input is manifests, neither a snapshot nor over one. */
  readonly allocate: boolean;
  /** The input is a snapshot: it names every object of the cluster. */
  readonly snapshot: boolean;
}

export interface Normalised {
  readonly model: Model;
  /** Allocation files to write. */
  readonly created: readonly Allocation[];
  /** By place. With an error among them the model is not to be used. */
  readonly problems: readonly Problem[];
  /** Services that do not get what another one has. */
  readonly lost: readonly Lost[];
  /** Every Service with rules, as it was read, and the numbers it has now; by `namespace/name`. */
  readonly services: readonly NumberedService[];
}

export interface NumberedService {
  readonly object: KubeObject;
  /** Ports by key as in `http/TCP`. */
  readonly numbers: Allocation;
}

/** Kubernetes objects in, the model out. Pure: the order of the input changes nothing. */
export function normalise(input: NormaliseInput, memo = new Memo()): Normalised {
  const problems: Problem[] = [];
  const base = readObjects(input.base, problems, memo);
  const change = readObjects(input.change, problems, memo);
  const layered = layer(base, change, problems);
  const backing = backingOf(layered, problems);
  const numbers = giveNumbers(layered, input, problems, memo);
  const asked = labelsAsked(layered);
  const nodes = memo.same('nodes', makeNodes(nodeSources(layered, input), input.config, asked, problems));
  const readable = { services: layered.services, unread: [base.unread, change.unread] };
  addAll(problems, orphans(layered.slices, readable));
  addAll(problems, leftOut(layered.services));

  const made: (readonly [ReadService, Service])[] = [];
  const numbered: NumberedService[] = [];
  for (const read of sortedWithRules(layered)) {
    const given = numbers.given.get(read.key);
    if (!given) continue;
    numbered.push({ object: read.object, numbers: given });
    if (!input.allocate) addAll(problems, waits(read, given, isNew(read, input, layered)));
    if (given.clusterIPs.length > 0 && read.ports.length > 0)
      made.push([read, serviceOf(read, given, backing.get(read.key) ?? [], memo)]);
  }
  const completeness = {
    hasEndpoints: input.config.complete || layered.slices.length > 0,
    isWhole: !base.unread.slices && !change.unread.slices,
    isLayered: input.base.length > 0,
  };
  const clashes = findClashes(made);
  addAll(problems, clashes.problems);
  addAll(problems, checkBacking(made, backing, completeness, memo));
  addAll(problems, findServiceEndpoints(made));
  addAll(problems, findShadows(made, nodes));
  addAll(problems, findOutside(made, input.config));
  addAll(problems, findDifferences(made, nodes, input.config, memo));
  const model = { nodes, services: made.map(([, service]) => service) };
  return {
    model,
    created: numbers.created,
    problems: problems.toSorted(compareProblems),
    services: numbered,
    lost: clashes.lost,
  };
}

/** A snapshot that names no Node at all was taken without them. */
function nodeSources({ nodes, services, slices }: Layered, { snapshot }: NormaliseInput): NodeSources {
  return {
    objects: nodes,
    slices: slices.filter(({ service }) => services.has(service)),
    isWhole: snapshot && nodes.size > 0,
  };
}

/** `makeService`, once for the same parts. */
function serviceOf(read: ReadService, given: Allocation, slices: readonly ReadSlice[], memo: Memo): Service {
  return memo.of('service', read, [given, ...slices], () => makeService(read, given, slices));
}

/** The node labels that weights of Services name. */
function labelsAsked(layered: Layered): ReadonlySet<string> {
  const services = [...layered.services.values()];
  return new Set(services.flatMap(({ weights }) => weights.map(({ label }) => label)));
}

function sortedWithRules(layered: Layered): readonly ReadService[] {
  const services = [...layered.services.values()].filter(hasRules);
  return services.toSorted((a, b) => compareText(a.key, b.key));
}

/** Over a base, what the change brings has not been at the API server yet. */
function isNew(read: ReadService, input: NormaliseInput, layered: Layered): boolean {
  return input.base.length > 0 && layered.changed.has(read.key);
}

/** What stands behind each Service: endpoints it cannot use, ports that nobody serves. */
function checkBacking(
  made: readonly (readonly [ReadService, Service])[],
  backing: ReadonlyMap<string, readonly ReadSlice[]>,
  completeness: Completeness,
  memo: Memo,
): Problem[] {
  const flags = Object.values(completeness);
  return made.flatMap(([read, service]) => {
    const slices = backing.get(read.key) ?? [];
    return memo.of('backing', read, [service, ...flags, ...slices], () => [
      ...passedOver(read, service, slices),
      ...findGaps(read, service, slices, completeness),
    ]);
  });
}
