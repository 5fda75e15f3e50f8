import {
  addAll,
  compareText,
  type Family,
  familyOfAddress,
  type Place,
  type Problem,
  refusal,
} from '@sluice/netfilter';
import { enterAllocations, enterRequests, enterTaken, type Ledger, openLedger, overriddenNumbers } from './ledger.ts';
import { chooseFrom, namesOf, type NumberRange, type RangeConfig, type Ranges, rangesOf } from './range.ts';
import {
  type Allocated,
  type AllocationPort,
  type AllocationRequest,
  portKey,
  seedOf,
  serviceName,
  type Taken,
} from './request.ts';
import type { Allocation } from './allocation.ts';
import type { Path } from '../model/kube.ts';

/**
 * Allocates the missing addresses and ports of all Services. Pure, and independent of the order of its inputs.
 * A manifest takes precedence; an allocation file never changes; a new number is the first free one in an order that is derived from the
 * Service's name, so that two branches rarely allocate the same number.
 * @param requests every Service that has or needs a ClusterIP, complete ones too
 * @param taken numbers in use otherwise
 * @param allocations the files beside the config
 */
export function allocate(
  requests: readonly AllocationRequest[],
  taken: Taken,
  config: RangeConfig,
  allocations: readonly Allocation[],
): Allocated {
  const ledger = openLedger();
  const sorted = requests.toSorted((a, b) => compareText(serviceName(a), serviceName(b)));
  const problems = [...enterAllocations(ledger, allocations), ...enterRequests(ledger, sorted)];
  enterTaken(ledger, taken);
  const run: AllocationRun = { ledger, ranges: rangesOf(config), problems };
  const files = new Map(allocations.map((allocation) => [serviceName(allocation), allocation]));
  const given = new Map<string, Allocation>();
  const created: Allocation[] = [];
  for (const request of sorted) {
    const key = serviceName(request);
    const file = files.get(key);
    if (file) addAll(problems, overriddenNumbers(request, file));
    const grant = grantAll(run, request, file);
    given.set(key, grant.all);
    if (grant.file) created.push(grant.file);
  }
  return { given, created, problems };
}

/** The state of one run of allocations. */
export interface AllocationRun {
  readonly ledger: Ledger;
  readonly ranges: Ranges;
  readonly problems: Problem[];
}

/** @returns `all`: every number of the Service; `file`: the content of its file, if that changes */
function grantAll(
  run: AllocationRun,
  request: AllocationRequest,
  old: Allocation | undefined,
): { all: Allocation; file?: Allocation } {
  const { namespace, name } = request;
  const addresses = grantAddresses(run, request, old);
  const ports = grantNodePorts(run, request, old);
  const health = grantHealthPort(run, request, old);
  const all: Allocation = {
    namespace,
    name,
    clusterIPs: addresses.all,
    nodePorts: ports.all,
    ...(health.all !== undefined && { healthCheckNodePort: health.all }),
  };
  if (addresses.added.length === 0 && Object.keys(ports.added).length === 0 && health.added === undefined)
    return { all };
  const healthCheckNodePort = health.added ?? old?.healthCheckNodePort;
  const file: Allocation = {
    namespace,
    name,
    ...(old?.file !== undefined && { file: old.file }),
    clusterIPs: [...(old?.clusterIPs ?? []), ...addresses.added],
    nodePorts: { ...old?.nodePorts, ...ports.added },
    ...(healthCheckNodePort !== undefined && { healthCheckNodePort }),
  };
  return { all, file };
}

function grantAddresses(
  run: AllocationRun,
  request: AllocationRequest,
  old: Allocation | undefined,
): { all: string[]; added: string[] } {
  const all: string[] = [];
  const added: string[] = [];
  for (const family of request.families) {
    const ofFamily = (address: string): boolean => familyOfAddress(address) === family;
    const known = request.clusterIPs.find(ofFamily) ?? old?.clusterIPs.find(ofFamily);
    const address = known ?? newAddress(run, request, family);
    if (address === undefined) continue;
    all.push(address);
    if (known === undefined) added.push(address);
  }
  return { all, added };
}

function newAddress(run: AllocationRun, request: AllocationRequest, family: Family): string | undefined {
  const ranges = run.ranges.addresses[family] ?? [];
  const word = family === 'ipv4' ? 'IPv4' : 'IPv6';
  if (ranges.length === 0) {
    const message = `Cannot allocate an ${word} address: there is no ${word} service CIDR`;
    const hint = `Add the cluster's ${word} range to serviceCIDRs in sluice.yaml, or list one family in spec.ipFamilies`;
    const object = `Service ${serviceName(request)}`;
    const at = request.origin.place(['spec', 'ipFamilies']);
    run.problems.push(refusal('ALLOCATION_EXHAUSTED', message, hint, { at, object }));
    return undefined;
  }
  return take(run, request, ranges, seedOf.address(serviceName(request), family), ['spec', 'clusterIP']);
}

type NodePorts = Record<string, number>;

/** Ports of one Service with one port number share a node port, as they do at the API server (DNS over TCP and UDP). */
function grantNodePorts(
  run: AllocationRun,
  request: AllocationRequest,
  old: Allocation | undefined,
): { all: NodePorts; added: NodePorts } {
  const all: NodePorts = {};
  const added: NodePorts = {};
  const known = (port: AllocationPort): number =>
    port.nodePort || (request.wantsNodePorts ? (old?.nodePorts[portKey(port)] ?? 0) : 0);
  for (const port of request.ports) if (known(port) > 0) all[portKey(port)] = known(port);
  if (!request.wantsNodePorts) return { all, added };
  for (const port of request.ports) {
    const key = portKey(port);
    if (all[key] !== undefined) continue;
    const twin = request.ports.find(
      (other) => other.port === port.port && other.protocol !== port.protocol && all[portKey(other)],
    );
    const shared = twin && all[portKey(twin)];
    const number =
      shared ?? take(run, request, [run.ranges.ports], seedOf.nodePort(serviceName(request), key), ['spec', 'ports']);
    if (number === undefined) continue;
    all[key] = number;
    added[key] = number;
  }
  return { all, added };
}

function grantHealthPort(
  run: AllocationRun,
  request: AllocationRequest,
  old: Allocation | undefined,
): { all?: number; added?: number } {
  if (request.healthCheckNodePort === 'none') return {};
  if (request.healthCheckNodePort !== 'wanted') return { all: request.healthCheckNodePort };
  if (old?.healthCheckNodePort !== undefined) return { all: old.healthCheckNodePort };
  const seed = seedOf.healthCheckNodePort(serviceName(request));
  const added = take(run, request, [run.ranges.ports], seed, ['spec', 'healthCheckNodePort']);
  return added === undefined ? {} : { all: added, added };
}

function take<T extends string | number>(
  run: AllocationRun,
  request: AllocationRequest,
  ranges: readonly NumberRange<T>[],
  seed: string,
  path: Path,
): T | undefined {
  const message = `Cannot allocate from ${namesOf(ranges)}: all ${ranges.reduce((sum, { size }) => sum + size, 0n)} are in use`;
  return takeFree(run, serviceName(request), ranges, seed, message, request.origin.place(path));
}

/**
 * One free number, entered under the name of a Service; a problem when there is none.
 * @param message of the problem
 * @param at the place where the number is needed, if a file has it
 */
export function takeFree<T extends string | number>(
  run: AllocationRun,
  service: string,
  ranges: readonly NumberRange<T>[],
  seed: string,
  message: string,
  at: Place | undefined,
): T | undefined {
  const value = chooseFrom(ranges, seed, (candidate) => run.ledger.isFree(candidate));
  if (value !== undefined) {
    run.ledger.take(value, { service });
    return value;
  }
  const hint =
    'Widen the range in sluice.yaml to that of the API server, or free the numbers of removed Services with `sluice allocations prune`';
  const object = `Service ${service}`;
  run.problems.push(refusal('ALLOCATION_EXHAUSTED', message, hint, at ? { at, object } : { object }));
  return undefined;
}
