import type { PortFacts } from './facts.ts';
import type { Layout } from './layout.ts';

/** Whose a chain, a rule, a set, a virtual server or an address is. */
export interface Explanation {
  /** `shop/web`; absent for what all Services share, and where there are several. */
  readonly service?: string;
  /** Several Services that it belongs or leads to, by key: `shop/web:http`. */
  readonly services?: readonly string[];
  /** The Service ports in question. */
  readonly ports?: readonly ExplainedPort[];
  /** The layout in which a kernel has this name; absent where all have it. */
  readonly layout?: Layout;
  /** What the other layout calls it. The end of a name that follows from the content is left out: `SLU-SVC-NPX46M4PTMTKRN6Y.*`. */
  readonly counterpart?: string;
  /** The files that have it, and the line in each; several profiles may. */
  readonly places: readonly Place[];
  /** What such a chain is for. */
  readonly meaning: string;
}

/** A line of a file of the bundle. */
interface Place {
  readonly file: string;
  readonly line: number;
  readonly text: string;
}

/** A Service port; the key alone where nothing else was asked. */
export type ExplainedPort = Pick<PortFacts, 'key'> & Partial<Pick<PortFacts, 'addresses' | 'nodePort' | 'endpoints'>>;

/** The lines of a file that are wanted, as places. */
export function placesIn(file: string, text: string, isWanted: (line: string) => boolean): readonly Place[] {
  return text.split('\n').flatMap((line, index) => (isWanted(line) ? [{ file, line: index + 1, text: line }] : []));
}
