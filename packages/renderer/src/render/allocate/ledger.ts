import { compareText, familyOfAddress, type Problem } from '@sluice/bundle';
import type { Allocation } from './allocation.ts';
import type { Path } from '../kube.ts';
import { type AllocationRequest, portKey, serviceName, type Taken } from './request.ts';

/** Who holds which number. A number has one holder; the first one to take it keeps it. */
export interface Ledger {
  isFree(value: string | number): boolean;
  /** The Service that holds `value`, or undefined when it is free. */
  holder(value: string | number): Holder | undefined;
  take(value: string | number, holder: Holder): void;
}

export interface Holder {
  /** `shop/web`, or words for something that is no Service. */
  readonly service: string;
  /** The allocation file that says so. */
  readonly file?: string;
}

export function openLedger(): Ledger {
  const holders = new Map<string | number, Holder>();
  return {
    isFree: (value) => !holders.has(value),
    holder: (value) => holders.get(value),
    take: (value, holder) => {
      if (!holders.has(value)) holders.set(value, holder);
    },
  };
}

/** Enters what is `taken` by others; a holder of that kind is never named. */
export function enterTaken(ledger: Ledger, taken: Taken): void {
  for (const value of [...taken.addresses, ...taken.nodePorts]) ledger.take(value, { service: 'another object' });
}

/**
 * Enters every number of every allocation file, also of Services that the input does not have: what was given stays given.
 * @returns `ALLOCATION_CONFLICT` for each number that two files hold; the Service that comes first by name keeps it
 */
export function enterAllocations(ledger: Ledger, allocations: readonly Allocation[]): Problem[] {
  const problems: Problem[] = [];
  for (const allocation of allocations.toSorted((a, b) => compareText(serviceName(a), serviceName(b)))) {
    const holder = {
      service: serviceName(allocation),
      ...(allocation.file !== undefined && { file: allocation.file }),
    };
    for (const value of numbersOf(allocation)) {
      const other = ledger.holder(value);
      if (other && other.service !== holder.service) problems.push(conflictOfFiles(value, other, holder));
      ledger.take(value, holder);
    }
  }
  return problems;
}

/**
 * Enters the numbers that Services bring themselves. They win over every file, but nothing that was given moves by itself.
 * @returns `ALLOCATION_CONFLICT` for each number that the file of another Service holds. Two Services with one number in
 * their manifests are found where the model is made.
 */
export function enterRequests(ledger: Ledger, requests: readonly AllocationRequest[]): Problem[] {
  const problems: Problem[] = [];
  for (const request of requests) {
    const service = serviceName(request);
    for (const [value, path] of ownNumbers(request)) {
      const other = ledger.holder(value);
      if (other?.file !== undefined && other.service !== service) {
        problems.push({
          code: 'ALLOCATION_CONFLICT',
          level: 'error',
          at: request.origin.place(path),
          object: `Service ${service}`,
          message: `Cannot use ${value}: ${other.file} gives it to Service ${other.service}`,
          hint: `Choose another number here, or delete ${other.file} if Service ${other.service} may move`,
        });
      }
      ledger.take(value, { service });
    }
  }
  return problems;
}

/** A note for each number of a Service's own file that its manifest overrules: the file still holds a number nobody uses. */
export function outvoted(request: AllocationRequest, file: Allocation): Problem[] {
  const pairs: [string | number | undefined, string | number | undefined, Path][] = [];
  for (const [index, ip] of request.clusterIPs.entries()) {
    const same = file.clusterIPs.find((other) => familyOfAddress(other) === familyOfAddress(ip));
    pairs.push([ip, same, ['spec', 'clusterIPs', index]]);
  }
  for (const [index, port] of request.ports.entries()) {
    pairs.push([port.nodePort || undefined, file.nodePorts[portKey(port)], ['spec', 'ports', index, 'nodePort']]);
  }
  if (typeof request.healthCheckNodePort === 'number') {
    pairs.push([request.healthCheckNodePort, file.healthCheckNodePort, ['spec', 'healthCheckNodePort']]);
  }
  return pairs.flatMap(([ours, theirs, path]) => {
    if (ours === undefined || theirs === undefined || ours === theirs) return [];
    return {
      code: 'ALLOCATION_INVALID',
      level: 'note',
      at: request.origin.place(path),
      object: `Service ${serviceName(request)}`,
      message: `Cannot use ${theirs} of ${file.file ?? 'its allocation'}: the manifest says ${ours}, and the manifest wins`,
      hint: `Delete ${theirs} from the file, so that it becomes free again`,
    };
  });
}

/** Every number of an allocation once, in an order of its own. */
export function numbersOf(allocation: Allocation): readonly (string | number)[] {
  const ports = Object.keys(allocation.nodePorts).toSorted(compareText);
  const numbers: (string | number)[] = [
    ...allocation.clusterIPs,
    ...ports.map((key) => allocation.nodePorts[key] ?? 0),
  ];
  if (allocation.healthCheckNodePort !== undefined) numbers.push(allocation.healthCheckNodePort);
  return [...new Set(numbers)];
}

function ownNumbers(request: AllocationRequest): readonly (readonly [string | number, readonly (string | number)[]])[] {
  const addresses = request.clusterIPs.map((ip, index) => [ip, ['spec', 'clusterIPs', index]] as const);
  const ports = request.ports.map((port, index) => [port.nodePort, ['spec', 'ports', index, 'nodePort']] as const);
  const health = typeof request.healthCheckNodePort === 'number' ? request.healthCheckNodePort : 0;
  const numbers = [...addresses, ...ports, [health, ['spec', 'healthCheckNodePort']] as const];
  return numbers.filter(([value]) => value !== 0);
}

function conflictOfFiles(value: string | number, first: Holder, second: Holder): Problem {
  const [a, b] = [first.file ?? first.service, second.file ?? second.service];
  return {
    code: 'ALLOCATION_CONFLICT',
    level: 'error',
    at: { file: b, line: 1, column: 1 },
    object: `Service ${second.service}`,
    message: `Cannot use ${value} for two Services: ${a} and ${b} both hold it`,
    hint: 'Run `sluice allocations fix`: it moves the one that the base branch does not have',
  };
}
