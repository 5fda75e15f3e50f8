import { canonicalRule } from '@sluice/netfilter';

/** Where a line of a Service is found; `draining`: in the kernel alone, until the connections of a real server have ended. */
type LineLocation = 'both' | 'kernel' | 'generation' | 'draining';

/** A line as iptables-save or ipvsadm -S prints it. */
export interface ServiceLine {
  readonly text: string;
  readonly in: LineLocation;
}

/** The lines of the kernel in its order, then those that it lacks. */
export function sideBySide(kernel: readonly string[], generation: readonly string[]): readonly ServiceLine[] {
  const [has, should] = [new Set(kernel.map(canonicalRule)), new Set(generation.map(canonicalRule))];
  return [
    ...kernel.map((text): ServiceLine => ({ text, in: should.has(canonicalRule(text)) ? 'both' : 'kernel' })),
    ...generation
      .filter((text) => !has.has(canonicalRule(text)))
      .map((text): ServiceLine => ({ text, in: 'generation' })),
  ];
}
