import type { Place } from '@sluice/netfilter';
import type { SourceDocument } from './documents.ts';

/** Converts offsets in the text of a document to lines and columns of its file. */
export class LineStarts {
  private readonly document: SourceDocument;
  private readonly starts: number[] = [0];

  constructor(document: SourceDocument) {
    this.document = document;
    const { text } = document;
    for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) this.starts.push(at + 1);
  }

  place(offset: number): Place {
    const { document, starts } = this;
    let [low, high] = [0, starts.length];
    while (high - low > 1) {
      const middle = (low + high) >>> 1;
      if ((starts[middle] ?? 0) <= offset) low = middle;
      else high = middle;
    }
    const column = offset - (starts[low] ?? 0) + (low === 0 ? document.column : 1);
    return { file: document.file, line: document.line + low, column };
  }
}
