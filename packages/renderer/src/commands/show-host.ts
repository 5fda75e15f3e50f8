import {
  type Family,
  type HostFacts,
  hostFactsLimits,
  hostFactsProblem,
  hostValues,
  type HostValues,
  invalidDrop,
  ipvsHost,
  type IpvsHost,
  isProblem,
  liberalKey,
  type Machine,
  onKernel,
  parseKernelRelease,
  type Problem,
  readHostFacts,
  type ResolvedNode,
  valueOf,
} from '@sluice/bundle';
import { readRegular } from '../load/regular.ts';
import { reading } from './failure.ts';

/** The machine that a node's text is shown for: the one whose facts are given, or what is known of it away from it. */
export class ShownHost {
  /** With `--host`. */
  readonly facts: HostFacts | undefined;
  readonly #node: ResolvedNode;
  readonly #machine: Machine;

  constructor(node: ResolvedNode, facts: HostFacts | undefined) {
    this.#node = node;
    this.facts = facts;
    this.#machine = facts ?? standIn(node);
  }

  values(family: Family): HostValues {
    return hostValues(this.#node, this.#machine, family);
  }

  get ipvs(): IpvsHost {
    return ipvsHost(this.#node.profile, this.#machine.addresses);
  }

  /** A line of `sysctl.conf`: one for other kernels is left out, and one for some a comment while the kernel is not known. */
  sysctl(line: string): readonly string[] {
    if (!line.startsWith('@')) return [line];
    const release = this.facts && parseKernelRelease(this.facts.kernelRelease);
    return release ? [onKernel(line, release) ?? []].flat() : [`# ${line}`];
  }
}

/** Away from the machine, the Node's own address and that of loopback stand for those of its interfaces. */
function standIn({ nodeFile }: ResolvedNode): Machine {
  const own = (family: Family): readonly string[] => {
    const address = valueOf(nodeFile.values, family, 'address');
    return [...(typeof address === 'string' ? [address] : []), family === 'ipv4' ? '127.0.0.1' : '::1'];
  };
  return { kernelRelease: '', addresses: { ipv4: own('ipv4'), ipv6: own('ipv6') }, tcpBeLiberal: false };
}

/**
 * Reads the file of `--host`.
 * @returns the facts, or `HOST_FACTS_INVALID`, also where they are of another node
 */
export function readHostFile(path: string, node: string): HostFacts | Problem {
  const bytes = reading(path, () => readRegular(path, hostFactsLimits.bytesMax));
  if (bytes === undefined || typeof bytes === 'string')
    return hostFactsProblem(`Cannot read ${path}: ${bytes ?? 'it is not there'}`);
  const facts = readHostFacts(path, bytes.toString('utf8'));
  if (isProblem(facts) || facts.node === node) return facts;
  return hostFactsProblem(`Cannot show node ${node} with ${path}: it has the facts of node ${facts.node}`);
}

/** What of a node is shown. */
export interface ShownLines {
  /** Lines of rule files, sets and virtual servers as the bundle has them. */
  readonly lines: readonly string[];
  readonly sysctls: readonly string[];
  /** Whether all sets of mode ipvs are put together. */
  readonly hasSets: boolean;
  readonly isTree: boolean;
}

/** Values of these lines that only the node knows, each in a line with its substitute. */
export function hostNotes(node: ResolvedNode, { lines, sysctls, hasSets, isTree }: ShownLines): readonly string[] {
  const isOpen = node.sysctls.some((line) => line.startsWith(`${liberalKey} = `));
  const notes: readonly (readonly [boolean, string])[] = [
    [
      lines.some((line) => line.includes('${host.nodePortAddresses}')),
      "${host.nodePortAddresses}: the Node's own address and loopback, where they are in nodePortAddresses, stand for those of its interfaces",
    ],
    [!isOpen && lines.includes(invalidDrop), `${liberalKey}: 0; where it is not, no rule drops INVALID packets`],
    [sysctls.some((line) => line.startsWith('@')), 'the kernel: lines of sysctl.conf for some kernels are comments'],
    [hasSets, "the machine's own addresses: only the Node's own address is left out of the addresses that are bound"],
    [isTree, 'iptables -m bpf: assumed; without it each endpoint has a chain'],
    [
      isTree,
      'KUBE-MARK-MASQ and KUBE-POSTROUTING: left out, as beside a kube-proxy; else they stand there for CNI plugins',
    ],
  ];
  return notes.flatMap(([isAsked, note]) => (isAsked ? [note] : []));
}

/** The notes with what to do, for standard error; `''` for none. */
export function printHostNotes(notes: readonly string[]): string {
  const hint = 'write it there with `sluiced observe -o FILE` and add --host FILE';
  return notes.map((note) => `note: only the node knows ${note} (${hint})\n`).join('');
}
