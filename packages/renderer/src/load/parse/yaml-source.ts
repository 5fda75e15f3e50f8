/**
 * A part of a document, with more spaces before some closing brackets: YAML 1.2 wants them deeper than their key; kubectl and most readers
 * do not, and manifests have them at its column.
 */
export class YamlSource {
  /** The part, with the inserted spaces. */
  text: string;
  /** The offset of the part in its document. */
  readonly #base: number;
  /** Spaces at each place: more than the column of any key but those on one line with another. */
  #width = 0;
  /** The offsets in `text` behind the inserted spaces. */
  readonly #ends: number[] = [];

  constructor(text: string, base = 0) {
    this.text = text;
    this.#base = base;
  }

  indent(at: number): void {
    if (this.#width === 0) {
      const indents = this.text.match(/^[ \-?]{1,1000}/gm) ?? [];
      this.#width = indents.reduce((most, { length }) => Math.max(most, length), 0) + 1;
    }
    this.text = this.text.slice(0, at) + ' '.repeat(this.#width) + this.text.slice(at);
    this.#ends.push(at + this.#width);
  }

  /** The offset in the document of an offset in `text`. */
  original(offset: number): number {
    if (this.#ends.length === 0) return this.#base + offset;
    return this.#base + offset - this.#width * this.#ends.filter((end) => end <= offset).length;
  }
}
