import type { Family } from '../family.ts';

/** By family, the offsets of the addresses in the packet's header, and their length. */
const headers = {
  ipv4: { source: 12, destination: 16, bytes: 4 },
  ipv6: { source: 8, destination: 24, bytes: 16 },
} as const satisfies Record<Family, unknown>;

/** Operations of classic BPF (`linux/bpf_common.h`): load a word into A, copy it to X, jump if A equals X, return. */
const [load, keep, compare, end] = [0x20, 0x07, 0x1d, 0x06];

/**
 * The bytecode of `-m bpf` for packets whose destination is their source: iptables has no match that compares two parts of a packet. It
 * compares word by word. Printed as by `iptables-save` (`libxt_bpf`): the number of operations, then each as code, jump if true, jump if
 * false, and value.
 */
function bytecodeOf(family: Family): string {
  const { source, destination, bytes } = headers[family];
  const words = bytes / 4;
  const comparisons = Array.from({ length: words }, (_, at) => [
    [load, 0, 0, source + at * 4],
    [keep, 0, 0, 0],
    [load, 0, 0, destination + at * 4],
    // Jump to the last operation, which returns 0: no match.
    [compare, 0, (words - at - 1) * 4 + 1, 0],
  ]).flat();
  const operations = [...comparisons, [end, 0, 0, 65_535], [end, 0, 0, 0]];
  return [String(operations.length), ...operations.map((operation) => operation.join(' '))].join(',');
}

/** By family, the bytecode of a match `reflexive`. */
export const reflexiveBytecode: Readonly<Record<Family, string>> = {
  ipv4: bytecodeOf('ipv4'),
  ipv6: bytecodeOf('ipv6'),
};

/** The family of this bytecode; undefined for any other one: rules must not contain unknown code. */
export function familyOfBytecode(text: string): Family | undefined {
  return (['ipv4', 'ipv6'] as const).find((family) => reflexiveBytecode[family] === text);
}
