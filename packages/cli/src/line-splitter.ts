/** Calls back for each line of a text that comes in parts, each of which may end anywhere. */
export class LineSplitter {
  readonly #read: (line: string) => void;
  #rest = '';

  constructor(read: (line: string) => void) {
    this.#read = read;
  }

  take(part: string): void {
    const lines = `${this.#rest}${part}`.split('\n');
    this.#rest = lines.pop() ?? '';
    for (const line of lines) this.#read(line);
  }

  end(): void {
    if (this.#rest !== '') this.#read(this.#rest);
  }
}
