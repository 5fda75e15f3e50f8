import { type Dirent, readdirSync } from 'node:fs';
import { addAll, compareText, familyOfAddress, parseAddress, type Problem, refusal } from '@sluice/netfilter';
import { stringify } from 'yaml';
import type { Allocation } from '../render/allocate/allocation.ts';
import { findingProblem } from './config/problems.ts';
import { readText, type TextOrigin } from './config/text.ts';
import { reasonOf } from '@sluice/cli';
import { readRegularText } from '@sluice/transport/files/regular.ts';
import { checkSchema, type Schema } from './schema/schema.ts';
import { fields, integer, text } from './schema/proxy.ts';

export interface ReadAllocations {
  /** By `namespace/name`. */
  readonly allocations: readonly Allocation[];
  readonly problems: readonly Problem[];
}

/**
 * Reads all `<directory>/<namespace>/<name>.yaml`. A missing directory is empty; other files, such as a README, are ignored.
 * @param directory the path from which every `file` starts
 */
export function readAllocations(directory: string): ReadAllocations {
  const allocations: Allocation[] = [];
  const problems: Problem[] = [];
  try {
    for (const folder of entriesOf(directory)) {
      if (folder.isFile() && isYaml(folder.name)) problems.push(misplaced(`${directory}/${folder.name}`));
      if (!folder.isDirectory() || folder.name.startsWith('.')) continue;
      for (const entry of entriesOf(`${directory}/${folder.name}`)) {
        if (!isYaml(entry.name)) continue;
        const file = `${directory}/${folder.name}/${entry.name}`;
        const content = readRegularText(file);
        const read = content === undefined ? { problems: [irregular(file)] } : readAllocation(file, content);
        if ('problems' in read) addAll(problems, read.problems);
        else allocations.push(read);
      }
    }
  } catch (error) {
    problems.push(unreadable(directory, error));
  }
  return { allocations, problems };
}

/** In byte order, so that the order of problems does not depend on the file system. */
function entriesOf(directory: string): Dirent[] {
  try {
    return readdirSync(directory, { withFileTypes: true }).toSorted((a, b) => compareText(a.name, b.name));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

const isYaml = (name: string): boolean => name.endsWith('.yaml') && !name.startsWith('.');
const pathForm = /(?:^|\/)([a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)\/([a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)\.yaml$/;

const schema: Schema = {
  ...fields('The allocations of one Service.', {
    apiVersion: text('The version of this format.', { const: 'sluice.dev/v1alpha1' }),
    kind: text('The kind.', { const: 'Allocation' }),
    clusterIPs: { type: 'array', maxItems: 2, items: text('An address.', { format: 'ip-address' }) },
    nodePorts: {
      type: 'object',
      propertyNames: text('The name of the port and its protocol.', {
        pattern: '^(?:[a-z0-9-]{1,63})?/(?:TCP|UDP|SCTP)$',
      }),
      additionalProperties: integer('A node port.', 1, 65535),
    },
    healthCheckNodePort: integer('The port of the health check.', 1, 65535),
  }),
  required: ['apiVersion', 'kind'],
};

/**
 * Reads one allocation file.
 * @param file its path; the last two parts name the Service
 * @returns the allocation, or all problems of the file (`ALLOCATION_INVALID`, or problems of its YAML)
 */
export function readAllocation(file: string, content: string): Allocation | { readonly problems: readonly Problem[] } {
  const [, namespace, name] = pathForm.exec(file) ?? [];
  if (namespace === undefined || name === undefined) return { problems: [misplaced(file)] };
  const { value, origin, problems } = readText(file, content);
  if (value === undefined) return { problems };
  const object = `Service ${namespace}/${name}`;
  const findings = checkSchema(schema, value, { nullIsUnset: false });
  if (findings.length > 0) {
    return {
      problems: findings.map((finding) => ({ ...findingProblem(finding, origin, object), code: 'ALLOCATION_INVALID' })),
    };
  }
  const allocation = toAllocation(namespace, name, file, value as unknown as AllocationText);
  const wrong = crossCheck(allocation, origin, object);
  return wrong.length > 0 ? { problems: wrong } : allocation;
}

/** The content of a file that passed the schema. */
interface AllocationText {
  readonly clusterIPs?: readonly string[];
  readonly nodePorts?: Readonly<Record<string, number>>;
  readonly healthCheckNodePort?: number;
}

function toAllocation(namespace: string, name: string, file: string, value: AllocationText): Allocation {
  return {
    namespace,
    name,
    file,
    clusterIPs: (value.clusterIPs ?? []).map((ip) => parseAddress(ip)?.text ?? ip),
    nodePorts: value.nodePorts ?? {},
    ...(value.healthCheckNodePort !== undefined && { healthCheckNodePort: value.healthCheckNodePort }),
  };
}

/** Checks that each family has at most one address and each protocol uses a port once. */
function crossCheck(allocation: Allocation, origin: TextOrigin, object: string): Problem[] {
  const problems: Problem[] = [];
  const complain = (path: readonly string[], message: string): void => {
    const hint = 'Restore the file from Git, or delete it if the Service may get other addresses and ports';
    problems.push({ code: 'ALLOCATION_INVALID', level: 'error', at: origin.place(path), object, message, hint });
  };
  const families = allocation.clusterIPs.map(familyOfAddress);
  if (new Set(families).size < families.length)
    complain(['clusterIPs'], 'Cannot use clusterIPs: both addresses are of the same family');
  const seen = new Set<string>();
  for (const [key, port] of Object.entries(allocation.nodePorts)) {
    const held = `${port}${key.slice(key.lastIndexOf('/'))}`;
    if (seen.has(held)) complain(['nodePorts', key], `Cannot use nodePorts: ${port} is used twice for one protocol`);
    seen.add(held);
    if (port !== allocation.healthCheckNodePort) continue;
    complain(['healthCheckNodePort'], `Cannot use healthCheckNodePort: ${port} is the node port of ${key}`);
  }
  return problems;
}

/** The path of an allocation's file, below the directory of allocations. */
export function allocationPath(allocation: Allocation): string {
  return `${allocation.namespace}/${allocation.name}.yaml`;
}

/** Prints an allocation file, the inverse of `readAllocation`. */
export function printAllocation(allocation: Allocation): string {
  const ports = Object.entries(allocation.nodePorts).toSorted(([a], [b]) => compareText(a, b));
  const document = {
    apiVersion: 'sluice.dev/v1alpha1',
    kind: 'Allocation',
    ...(allocation.clusterIPs.length > 0 && { clusterIPs: allocation.clusterIPs }),
    ...(ports.length > 0 && { nodePorts: Object.fromEntries(ports) }),
    ...(allocation.healthCheckNodePort !== undefined && { healthCheckNodePort: allocation.healthCheckNodePort }),
  };
  return `# Given by sluice. Commit this file: as long as it stays, the Service keeps these numbers.\n${stringify(document)}`;
}

const misplaced = (file: string): Problem =>
  refusal(
    'ALLOCATION_INVALID',
    'Cannot read the allocation: its path does not end in <namespace>/<name>.yaml',
    'Move the file back to its path, or out of the allocations directory',
    { at: { file, line: 1, column: 1 } },
  );

/** A link could point to a foreign file, and reading a pipe could block. */
const irregular = (file: string): Problem =>
  refusal(
    'ALLOCATION_INVALID',
    'Cannot read the allocation: it is not a regular file',
    'Replace it with the regular file that sluice wrote',
    { at: { file, line: 1, column: 1 } },
  );

const unreadable = (directory: string, error: unknown): Problem =>
  refusal(
    'INPUT_UNREADABLE',
    `Cannot read the allocations in ${directory}: ${reasonOf(error)}`,
    'Make the directory and its files readable',
  );
