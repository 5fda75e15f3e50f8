/** An inclusive range of kernel releases. */
interface KernelRange {
  readonly first: KernelRelease;
  readonly last: KernelRelease;
}
type KernelRelease = readonly [major: number, minor: number];

const lineForm = /^@kernel=(0|[1-9]\d?)\.(0|[1-9]\d{0,2})\.\.(0|[1-9]\d?)\.(0|[1-9]\d{0,2}) (\S.*)$/;

/**
 * Reads a line of `sysctl.conf` for some kernels only: `@kernel=4.1..5.8 net.ipv4.vs.conn_reuse_mode = 0`.
 * @returns the range and the text after it; undefined for other lines, or for an empty range
 */
export function readKernelLine(line: string): { readonly range: KernelRange; readonly text: string } | undefined {
  const match = lineForm.exec(line);
  if (!match) return undefined;
  const [first, second, third, fourth] = match.slice(1, 5).map(Number) as [number, number, number, number];
  const range: KernelRange = { first: [first, second], last: [third, fourth] };
  return compare(range.first, range.last) > 0 ? undefined : { range, text: match[5] as string };
}

/** The first two numbers of the output of `uname -r`, such as `6.1.0-44-cloud-amd64`; undefined for other texts. */
export function parseKernelRelease(text: string): KernelRelease | undefined {
  const match = /^(\d{1,4})\.(\d{1,4})(?!\d)/.exec(text);
  return match ? [Number(match[1]), Number(match[2])] : undefined;
}

/**
 * The line without its guard, if it applies to this kernel.
 * @param line of a resolved `sysctl.conf`
 * @returns undefined when the line does not apply to this kernel
 */
export function onKernel(line: string, release: KernelRelease): string | undefined {
  if (!line.startsWith('@')) return line;
  const guarded = readKernelLine(line);
  if (!guarded) return undefined;
  const { first, last } = guarded.range;
  return compare(first, release) <= 0 && compare(release, last) <= 0 ? guarded.text : undefined;
}

function compare(a: KernelRelease, b: KernelRelease): number {
  return a[0] - b[0] || a[1] - b[1];
}
