import { compareText, familyOfAddress, notice, type Problem, refusal } from '@sluice/netfilter';
import type { Allocation } from './allocation.ts';
import type { Path } from '../model/kube.ts';
import { type AllocationRequest, portKey, serviceName, type Taken } from './request.ts';

/** The holders of numbers. A number has one holder: the first one to take it. */
export interface Ledger {
  isFree(value: string | number): boolean;
  /** The Service that holds `value`, or undefined when it is free. */
  holder(value: string | number): NumberHolder | undefined;
  take(value: string | number, holder: NumberHolder): void;
}

interface NumberHolder {
  /** `shop/web`, or a description of another kind of object. */
  readonly service: string;
  /** The allocation file with the number. */
  readonly file?: string;
}

export function openLedger(): Ledger {
  const holders = new Map<string | number, NumberHolder>();
  return {
    isFree: (value) => !holders.has(value),
    holder: (value) => holders.get(value),
    take: (value, holder) => {
      if (!holders.has(value)) holders.set(value, holder);
    },
  };
}

/** Enters numbers that other objects use; messages never name such a holder. */
export function enterTaken(ledger: Ledger, taken: Taken): void {
  for (const value of [...taken.addresses, ...taken.nodePorts]) ledger.take(value, { service: 'another object' });
}

/**
 * Enters every number of every allocation file, also of Services that are not in the input: allocations are permanent.
 * @returns `ALLOCATION_CONFLICT` for each number of two files; the first Service by name keeps it
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
 * Enters the numbers that manifests set. They take precedence over files, but no allocation is replaced automatically.
 * @returns `ALLOCATION_CONFLICT` for each number in the file of another Service. Two manifests with one number are found when the model
 * is made.
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
          message: `Cannot use ${value}: ${other.file} allocates it to Service ${other.service}`,
          hint: `Choose another number here, or delete ${other.file} if Service ${other.service} may get another one`,
        });
      }
      ledger.take(value, { service });
    }
  }
  return problems;
}

/** A note for each number of a Service's file that its manifest overrides, so that the number is reserved but unused. */
export function overriddenNumbers(request: AllocationRequest, file: Allocation): Problem[] {
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
    return notice(
      'ALLOCATION_INVALID',
      `Cannot use ${theirs} of ${file.file ?? 'its allocation'}: the manifest sets ${ours}, which takes precedence`,
      `Delete ${theirs} from the file to free it`,
      { at: request.origin.place(path), object: `Service ${serviceName(request)}` },
    );
  });
}

/** Every number of an allocation once, in a fixed order. */
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

function conflictOfFiles(value: string | number, first: NumberHolder, second: NumberHolder): Problem {
  const [a, b] = [first.file ?? first.service, second.file ?? second.service];
  return refusal(
    'ALLOCATION_CONFLICT',
    `Cannot use ${value} for two Services: both ${a} and ${b} have it`,
    'Run `sluice allocations fix`: it replaces the number of the Service that the base branch does not have',
    { at: { file: b, line: 1, column: 1 }, object: `Service ${second.service}` },
  );
}
