import { addAll, compareProblems, compareText, embeddedIn, type Problem, refusal, warning } from '@sluice/netfilter';
import type { Allocation } from './allocate/allocation.ts';
import { layer, type LayeredObjects } from './layer/layer.ts';
import type { SluiceConfig } from './model/config.ts';
import { endingExternalIPs, servesExternalIPs } from './model/external-ips.ts';
import type { KubeObject } from './model/kube.ts';
import { Memo } from './model/memo.ts';
import type { Model, Service, ServicePort } from './model/model.ts';
import { profilesInUse } from './model/profiles-in-use.ts';
import { backingOf, matchingPorts, portsOfSlices } from './normalise/backing.ts';
import { findClashes, type LostClaim } from './normalise/clashes.ts';
import { findDifferences } from './normalise/differences.ts';
import { ignoredFields } from './normalise/ignored-fields.ts';
import { makeNodes, type NodeSources } from './normalise/nodes.ts';
import { assignNumbers, hasRules } from './normalise/numbers.ts';
import { findOutside, withServiceCIDRs } from './normalise/outside.ts';
import { serviceTooLarge } from './normalise/service-size.ts';
import type { MadeServices } from './normalise/service.ts';
import { findShadows } from './normalise/shadows.ts';
import { type VersionView, ofViews, type ServiceCandidate, viewOf } from './normalise/views.ts';
import { ofOtherProxies, waitingForNumbers } from './normalise/waiting.ts';
import type { ReadService } from './read/read-service.ts';
import { readObjects } from './read/read.ts';
import type { ReadSlice } from './read/slice.ts';
import { behavioursOf, unsetVersions } from './versions/behaviour.ts';

/** How complete the input is. */
interface Completeness {
  /**
   * The input has endpoints. Without any, as with manifests from Git, a Service without endpoints is a note instead of a
   * warning.
   */
  readonly hasEndpoints: boolean;
  /** Every slice is valid: otherwise a gap may come from an invalid one. */
  readonly isWhole: boolean;
  /** The slices are the base's and the Services may be newer: a port that only a slice has is not a mistake. */
  readonly isLayered: boolean;
}

/** Service ports without usable endpoints, and endpoints without a Service port, that look like mistakes. */
function findGaps(read: ReadService, service: Service, slices: readonly ReadSlice[], input: Completeness): Problem[] {
  if (!input.isWhole) return [];
  const hasAddresses = slices.some((slice) => slice.parts.some((part) => part.endpoints.length > 0));
  const problems = hasAddresses ? unmatchedPorts(read, slices) : [];
  if (!input.isLayered) addAll(problems, strayPorts(read, slices));
  if (read.selector !== '' && problems.length === 0 && !service.ports.some(isUsable))
    problems.push(withoutEndpoints(read, input));
  return problems;
}

/** Whether a port has a usable endpoint: ready, or still serving while terminating (operations: endpoint selection). */
function isUsable(port: ServicePort): boolean {
  return Object.values(port.families).some((family) =>
    family.endpoints.some((endpoint) => endpoint.ready || (endpoint.serving && endpoint.terminating)),
  );
}

function unmatchedPorts(read: ReadService, slices: readonly ReadSlice[]): Problem[] {
  const ports = portsOfSlices(slices);
  return read.ports.flatMap((port) => {
    if (matchingPorts(ports, port).length > 0) return [];
    const title =
      port.name === '' ? `${port.port}/${port.protocol}, which has no name` : `"${port.name}"/${port.protocol}`;
    const target = /^[0-9]+$/.test(port.targetPort) ? '' : `, and that its pods have a port named "${port.targetPort}"`;
    return warning(
      'ENDPOINT_WITHOUT_PORT',
      `Cannot route port ${title}: the Service has endpoints, but none with a port of that name and protocol`,
      `Check that the EndpointSlices have the name of the Service's port${target}`,
      { at: read.object.origin.place(['spec', 'ports', port.index]), object: `Service ${read.key}` },
    );
  });
}

function strayPorts(read: ReadService, slices: readonly ReadSlice[]): Problem[] {
  const wanted = new Set(read.ports.map((port) => `${port.name}/${port.protocol}`));
  return slices.flatMap((slice) =>
    slice.parts.flatMap((part) =>
      part.ports
        .filter((port) => part.endpoints.length > 0 && !wanted.has(`${port.name}/${port.protocol}`))
        .map((port) =>
          warning(
            'OBJECT_IGNORED',
            `Cannot use port "${port.name}"/${port.protocol}: Service ${read.key} has no port of that name and protocol`,
            "Use the name of the Service's port, or remove it",
            {
              at: slice.object.origin.place([...part.path, 'ports', port.index]),
              object: `${slice.kind} ${slice.key}`,
            },
          ),
        ),
    ),
  );
}

function withoutEndpoints(read: ReadService, input: Completeness): Problem {
  return {
    code: 'SERVICE_WITHOUT_ENDPOINTS',
    level: input.hasEndpoints ? 'warning' : 'note',
    at: read.object.origin.place(['spec', 'selector']),
    object: `Service ${read.key}`,
    message:
      'Cannot route to any endpoint: the Service has a selector and no usable endpoint, so its traffic is rejected',
    hint: input.hasEndpoints
      ? 'Check that pods match the selector and are ready'
      : 'Render over a snapshot of the cluster (--base) to have its endpoints',
  };
}

export interface NormaliseInput {
  /** The objects of the cluster; empty: there is only the change. */
  readonly base: readonly KubeObject[];
  /** The objects of `-f`. */
  readonly change: readonly KubeObject[];
  readonly config: SluiceConfig;
  readonly allocations: readonly Allocation[];
  /** Allocate missing addresses and ports: the input is manifests, without a snapshot. */
  readonly allocate: boolean;
  /** The input is a snapshot: it has every object of the cluster. */
  readonly snapshot: boolean;
}

export interface Normalised {
  readonly model: Model;
  /** The config of the input, with the service CIDRs of the cluster. */
  readonly config: SluiceConfig;
  /** Allocation files to write. */
  readonly created: readonly Allocation[];
  /** By place. With an error among them the model must not be used. */
  readonly problems: readonly Problem[];
  /** Services that lost an address or a port to another Service. */
  readonly lost: readonly LostClaim[];
  /** Every Service with rules, with its addresses and ports; by `namespace/name`. */
  readonly services: readonly NumberedService[];
}

interface NumberedService {
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
  const config = memo.same('config', withServiceCIDRs(input.config, layered.serviceCIDRs, problems));
  const backing = backingOf(layered, problems);
  const numbers = assignNumbers(layered, { ...input, config }, problems, memo);
  const labels = labelsInWeights(layered);
  const nodes = memo.same('nodes', makeNodes(nodeSources(layered, input), config, labels, problems));
  const readable = { services: layered.services, unread: [base.unread, change.unread] };
  addAll(problems, orphanedSlices(layered.slices, readable));
  addAll(problems, ofOtherProxies(layered.services));

  const candidates: ServiceCandidate[] = [];
  const numbered: NumberedService[] = [];
  for (const service of sortedWithRules(layered)) {
    const given = numbers.given.get(service.key);
    if (!given) continue;
    numbered.push({ object: service.object, numbers: given });
    if (!input.allocate) addAll(problems, waitingForNumbers(service, given, isNew(service, input, layered)));
    if (given.clusterIPs.length === 0 || service.ports.length === 0) continue;
    const slices = backing.get(service.key) ?? [];
    const tooLarge = serviceTooLarge(service, slices);
    if (tooLarge) problems.push(tooLarge);
    else candidates.push({ service, slices, numbers: given });
  }
  const completeness = {
    hasEndpoints: config.complete || layered.slices.length > 0,
    isWhole: !base.unread.slices && !change.unread.slices,
    isLayered: input.base.length > 0,
  };
  const profiles = profilesInUse({ nodes }, config);
  const isOpen = servesExternalIPs({ nodes }, config);
  const views = behavioursOf(profiles).map((version) => viewOf({ version, isOpen }, candidates, memo));
  const clashes = new Map(views.map((view) => [view, findClashes(view.made)]));
  addAll(problems, unsetVersions(profiles, candidates, memo));
  addAll(problems, endingExternalIPs(views[0]?.made.map(([, service]) => service) ?? []));
  addAll(
    problems,
    ofViews(views, (view) => [
      ...view.problems,
      ...(clashes.get(view)?.problems ?? []),
      ...checkBacking(view, completeness, memo),
      ...findServiceEndpoints(view.made),
      ...findShadows(view.made, { nodes, objects: layered.nodes, profiles }),
      ...findOutside(view.made, config),
      ...findDifferences(view.made, nodes, config, memo),
    ]),
  );
  return {
    model: modelOf(nodes, views),
    config,
    created: numbers.created,
    problems: problems.toSorted(compareProblems),
    services: numbered,
    lost: [...clashes.values()].flatMap(({ lost }) => lost),
  };
}

/** The model of nodes and Services. @param views newest first */
export function modelOf(nodes: Model['nodes'], [newest, ...older]: readonly VersionView[]): Model {
  const services = ({ made }: VersionView): readonly Service[] => made.map(([, service]) => service);
  return {
    nodes,
    services: newest ? services(newest) : [],
    ...(older.length > 0 && { older: new Map(older.map((view) => [view.version, services(view)])) }),
  };
}

/** A snapshot without any Node was taken without them. */
function nodeSources({ nodes, services, slices }: LayeredObjects, { snapshot }: NormaliseInput): NodeSources {
  return {
    objects: nodes,
    slices: slices.filter(({ service }) => services.has(service)),
    isWhole: snapshot && nodes.size > 0,
  };
}

/** The node labels that weights of Services name. */
function labelsInWeights(layered: LayeredObjects): ReadonlySet<string> {
  const services = [...layered.services.values()];
  return new Set(services.flatMap(({ weights }) => weights.map(({ label }) => label)));
}

function sortedWithRules(layered: LayeredObjects): readonly ReadService[] {
  const services = [...layered.services.values()].filter(hasRules);
  return services.toSorted((a, b) => compareText(a.key, b.key));
}

/** Whether the API server has not seen a Service yet: it is in the change over a base. */
function isNew(read: ReadService, input: NormaliseInput, layered: LayeredObjects): boolean {
  return input.base.length > 0 && layered.changed.has(read.key);
}

/** Problems of endpoints: those that a Service cannot use, and ports without any. */
function checkBacking({ version, made, backing }: VersionView, completeness: Completeness, memo: Memo): Problem[] {
  const flags = Object.values(completeness);
  return made.flatMap(([read, service]) => {
    const slices = backing.get(read.key) ?? [];
    return memo.of(`backing ${version}`, read, [service, ...flags, ...slices], () => [
      ...ignoredFields(read, service, slices),
      ...findGaps(read, service, slices, completeness),
    ]);
  });
}

interface Readable {
  readonly services: ReadonlyMap<string, ReadService>;
  /** Services with errors: their slices are not orphaned. */
  readonly unread: readonly { readonly services: ReadonlySet<string> }[];
}

/**
 * Slices whose Service is not in the input: kube-proxy makes no rules for them. Endpoints without addresses are not reported: they
 * often serve for leader election.
 * @returns a warning for each
 */
function orphanedSlices(slices: readonly ReadSlice[], { services, unread }: Readable): Problem[] {
  const isThere = (key: string): boolean => services.has(key) || unread.some((one) => one.services.has(key));
  return slices
    .filter((slice) => !isThere(slice.service) && slice.foreign === undefined)
    .filter((slice) => slice.kind === 'EndpointSlice' || slice.parts.length > 0)
    .map((slice) =>
      warning(
        'SLICE_ORPHANED',
        `Cannot use these endpoints: there is no Service ${slice.service}`,
        'Add the Service to the input, or remove the endpoints',
        { at: slice.object.origin.place([]), object: `${slice.kind} ${slice.key}` },
      ),
    );
}

/**
 * Endpoints at the ClusterIP of a Service, or at an IPv6 address that a translator leads there: one Service would forward to another one around its policies, and nodes refuse the whole
 * bundle. External IPs and load-balancer addresses are permitted: they may be addresses of nodes, which host-network pods have.
 * @param services each with its parsed object
 * @returns an error for each Service and address
 */
function findServiceEndpoints(services: MadeServices): readonly Problem[] {
  const owners = new Map<string, string>();
  for (const [read, { ports }] of services)
    for (const { families } of ports)
      for (const { clusterIP } of Object.values(families)) owners.set(clusterIP, read.key);
  return services.flatMap(([read, { ports }]) =>
    [...new Set(ports.flatMap(addressesOf))].flatMap((address) => {
      const own = owners.get(address);
      if (own !== undefined) return [problem(read, address, `it is the ClusterIP of Service ${own}`)];
      return embeddedIn(address).flatMap(({ embedded: { text }, by }) => {
        const owner = owners.get(text);
        return owner === undefined
          ? []
          : problem(read, address, `it leads to ${text} (${by}), the ClusterIP of Service ${owner}`);
      });
    }),
  );
}

const addressesOf = ({ families }: ServicePort): readonly string[] =>
  Object.values(families).flatMap(({ endpoints }) => endpoints.map(({ address }) => address));

const problem = ({ key, object }: ReadService, address: string, why: string): Problem =>
  refusal(
    'ADDRESS_FORBIDDEN',
    `Cannot use ${address} as an endpoint: ${why}`,
    'Use the addresses of pods as endpoints',
    { at: object.origin.place([]), object: `Service ${key}` },
  );
