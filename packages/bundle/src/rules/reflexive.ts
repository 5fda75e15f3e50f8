import type { Family } from '../rulefile.ts';

/** Where the addresses stand in the header of a packet, from its first byte: by family, the source, the destination and their bytes. */
const headers = {
  ipv4: { source: 12, destination: 16, bytes: 4 },
  ipv6: { source: 8, destination: 24, bytes: 16 },
} as const satisfies Record<Family, unknown>;

/** Operations of the classic packet filter (`linux/bpf_common.h`): load a word, keep it, compare with what was kept, end. */
const [load, keep, compare, end] = [0x20, 0x07, 0x1d, 0x06];

/**
 * What `-m bpf` asks for a packet whose destination is its source: iptables has no match that compares two parts of a packet. Word by
 * word, and the first that differs ends it. As `iptables-save` prints it (`libxt_bpf`): the number of operations, then each as code,
 * steps if true, steps if not, and value.
 */
function bytecodeOf(family: Family): string {
  const { source, destination, bytes } = headers[family];
  const words = bytes / 4;
  const asked = Array.from({ length: words }, (_, at) => [
    [load, 0, 0, source + at * 4],
    [keep, 0, 0, 0],
    [load, 0, 0, destination + at * 4],
    // To the last operation, which says no.
    [compare, 0, (words - at - 1) * 4 + 1, 0],
  ]).flat();
  const operations = [...asked, [end, 0, 0, 65_535], [end, 0, 0, 0]];
  return [String(operations.length), ...operations.map((operation) => operation.join(' '))].join(',');
}

/** By family, the bytecode of a match `reflexive`. */
export const reflexiveBytecode: Readonly<Record<Family, string>> = {
  ipv4: bytecodeOf('ipv4'),
  ipv6: bytecodeOf('ipv6'),
};

/** The family whose match this bytecode is; undefined for any other one: a rule never carries code that nobody has read. */
export function familyOfBytecode(text: string): Family | undefined {
  return (['ipv4', 'ipv6'] as const).find((family) => reflexiveBytecode[family] === text);
}
