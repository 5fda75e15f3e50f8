import { compareText } from '@sluice/netfilter';
import type { BundleFiles } from '@sluice/bundle';
import type { PortFacts } from '../facts/facts.ts';
import type { Layout } from '../flows/layout.ts';

/** The owner and purpose of a chain, a rule, a set, a virtual server or an address. */
export interface Explanation {
  /** `shop/web`; absent where all Services share it, or several have it. */
  readonly service?: string;
  /** The keys of several Services that it belongs or leads to: `shop/web:http`. */
  readonly services?: readonly string[];
  /** The Service ports that it belongs to. */
  readonly ports?: readonly ExplainedPort[];
  /** The layout in which a kernel has this name; absent where all have it. */
  readonly layout?: Layout;
  /** Its name in the other layout. A suffix that depends on the content is left out: `SLU-SVC-NPX46M4PTMTKRN6Y.*`. */
  readonly counterpart?: string;
  /** The lines that have it, in the files of one or more profiles. */
  readonly places: readonly BundleLine[];
  /** The purpose of such a chain. */
  readonly meaning: string;
}

/** A line of a file of the bundle. */
export interface BundleLine {
  readonly file: string;
  readonly line: number;
  readonly text: string;
}

/** The lines of all files whose paths end so, by path. */
export const linesOf = (files: BundleFiles, end: string): readonly BundleLine[] =>
  [...files]
    .filter(([path]) => path.endsWith(end))
    .toSorted(([a], [b]) => compareText(a, b))
    .flatMap(([path, text]) => placesIn(path, text, () => true));

/** A Service port; only its key for chains and rules. */
export type ExplainedPort = Pick<PortFacts, 'key'> & Partial<Pick<PortFacts, 'addresses' | 'nodePort' | 'endpoints'>>;

/** The lines of a file that match, with their places. */
export function placesIn(file: string, text: string, isWanted: (line: string) => boolean): readonly BundleLine[] {
  return text.split('\n').flatMap((line, index) => (isWanted(line) ? [{ file, line: index + 1, text: line }] : []));
}
