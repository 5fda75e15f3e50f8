import type { Place } from '@sluice/netfilter';
import type { Origin, Path } from '../render/model/kube.ts';
import { LineStarts } from './parse/line-starts.ts';
import type { Marks } from './parse/marks.ts';
import { marksOf, type ParsedDocument } from './parse/parse.ts';

/** Finds places and caches what that needs. One instance for each load. */
export class PlaceFinder {
  private readonly located = new Map<ParsedDocument, Located>();
  private lastSmall: ParsedDocument | undefined;

  /** The origin of the value at `base` in a document. */
  origin(parsed: ParsedDocument, base: Path): Origin {
    return { place: (path) => this.place(parsed, [...base, ...path]) };
  }

  place(parsed: ParsedDocument, path: Path): Place {
    const located = this.locate(parsed);
    return located.lines.place(located.marks.find(path));
  }

  /**
   * Caches every large document: finding places in a list of 10,000 objects must not parse it 10,000 times.
   * Of small documents it keeps only the last, because there may be 100,000.
   */
  private locate(parsed: ParsedDocument): Located {
    const known = this.located.get(parsed);
    if (known !== undefined) return known;
    const located = { marks: marksOf(parsed), lines: new LineStarts(parsed.document) };
    if (parsed.document.text.length < large) {
      if (this.lastSmall !== undefined) this.located.delete(this.lastSmall);
      this.lastSmall = parsed;
    }
    this.located.set(parsed, located);
    return located;
  }
}

interface Located {
  readonly marks: Marks;
  readonly lines: LineStarts;
}

/** The size in characters from which a document is cached. */
const large = 64 * 1024;
