import {
  type Family,
  type HostValues,
  invalidDrop,
  ipvsHost,
  type IpvsHost,
  onKernel,
  parseKernelRelease,
  type Problem,
} from '@sluice/netfilter';
import {
  type HostFacts,
  hostFactsProblem,
  hostValues,
  isProblem,
  liberalKey,
  type Machine,
  observationLimits,
  readHostFacts,
  readObservation,
  type ResolvedNode,
  valueOf,
} from '@sluice/bundle';
import { readRegular } from '@sluice/transport/files/regular.ts';
import { reading } from '@sluice/renderer/commands/failure/failure.ts';

/** The host that a node's text is shown for: from the given facts, or from what the bundle knows about the node. */
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

  /** A line of `sysctl.conf`. A line for other kernels is left out; while the kernel is not known, it is a comment. */
  sysctl(line: string): readonly string[] {
    if (!line.startsWith('@')) return [line];
    const release = this.facts && parseKernelRelease(this.facts.kernelRelease);
    return release ? [onKernel(line, release) ?? []].flat() : [`# ${line}`];
  }
}

/** Without facts, the Node's own address and loopback are used as the addresses of its interfaces. */
function standIn({ nodeFile }: ResolvedNode): Machine {
  const own = (family: Family): readonly string[] => {
    const address = valueOf(nodeFile.values, family, 'address');
    return [...(typeof address === 'string' ? [address] : []), family === 'ipv4' ? '127.0.0.1' : '::1'];
  };
  return { kernelRelease: '', addresses: { ipv4: own('ipv4'), ipv6: own('ipv6') }, tcpBeLiberal: false };
}

/**
 * Reads the file of `--host`: an observation, or the facts alone that earlier versions of `sluiced observe` wrote.
 * @returns the facts, or `HOST_FACTS_INVALID` or `OBSERVATION_INVALID`, also for facts of another node
 */
export function readHostFile(path: string, node: string): HostFacts | Problem {
  const bytes = reading(path, () => readRegular(path, observationLimits.fileBytesMax));
  if (bytes === undefined || typeof bytes === 'string')
    return hostFactsProblem(`Cannot read ${path}: ${bytes ?? 'it does not exist'}`);
  const text = bytes.toString('utf8');
  const facts = text.startsWith('{') ? factsIn(path, text) : readHostFacts(path, text);
  if (isProblem(facts) || facts.node === node) return facts;
  return hostFactsProblem(`Cannot show node ${node} with ${path}: the facts are of node ${facts.node}`);
}

function factsIn(path: string, text: string): HostFacts | Problem {
  const seen = readObservation(path, text);
  if (isProblem(seen)) return seen;
  return seen.host
    ? { node: seen.node, ...seen.host }
    : hostFactsProblem(
        `Cannot show a node with ${path}: it is of saved outputs, which do not have the facts of the host`,
      );
}

/** The part of a node that is shown. */
export interface ShownLines {
  /** Lines of rule files, sets and virtual servers, as in the bundle. */
  readonly lines: readonly string[];
  readonly sysctls: readonly string[];
  /** Whether all sets of mode ipvs are included. */
  readonly hasSets: boolean;
  readonly isTree: boolean;
}

/** One note for each value in these lines that only the node knows, with its substitute. */
export function hostNotes(node: ResolvedNode, { lines, sysctls, hasSets, isTree }: ShownLines): readonly string[] {
  const isOpen = node.sysctls.some((line) => line.startsWith(`${liberalKey} = `));
  const notes: readonly (readonly [boolean, string])[] = [
    [
      lines.some((line) => line.includes('${host.nodePortAddresses}')),
      "${host.nodePortAddresses}: the Node's own address and loopback, if they are in nodePortAddresses, are used for its interfaces",
    ],
    [!isOpen && lines.includes(invalidDrop), `${liberalKey}: assumed to be 0; otherwise no rule drops INVALID packets`],
    [
      sysctls.some((line) => line.startsWith('@')),
      'the kernel release: lines of sysctl.conf for specific kernels are commented out',
    ],
    [hasSets, "the host's own addresses: only the Node's own address is excluded from the bound addresses"],
    [isTree, 'iptables -m bpf: assumed to exist; without it each endpoint has a chain'],
    [
      isTree,
      'KUBE-MARK-MASQ and KUBE-POSTROUTING: left out, as beside a kube-proxy; otherwise they are there for CNI plugins',
    ],
  ];
  return notes.flatMap(([isAsked, note]) => (isAsked ? [note] : []));
}

/** Prints the notes with a hint, for standard error; empty without notes. */
export function printHostNotes(notes: readonly string[]): string {
  const hint = 'run `sluiced observe -o FILE` on the node and pass --host FILE';
  return notes.map((note) => `note: only the node knows ${note} (${hint})\n`).join('');
}
