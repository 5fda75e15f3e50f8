import { UnreadText } from './unread-text.ts';
/** Values of libnftables-json(5). */
export type Json = string | number | boolean | null | readonly Json[] | { readonly [name: string]: Json };

export interface Word {
  readonly text: string;
  readonly isQuoted: boolean;
}

/** `"…"` is one word, also `"08:00"-"17:00"`, and so is each brace and comma that no other character follows. */
const wordForm = /"([^"]*(?:"-"[^"]*)?)"|([{}])|([^\s{}",]+(?:,[^\s{}",]+)*)|(,)/g;

export const wordsOf = (text: string): readonly Word[] =>
  [...text.matchAll(wordForm)].map(([, quoted, brace, plain, comma]) => ({
    text: quoted ?? brace ?? plain ?? comma ?? '',
    isQuoted: quoted !== undefined,
  }));

/** kube-proxy and Sluice have a hash of a concatenation: two. */
const depthMax = 8;

/** Words that are read one after another. */
export class Words {
  readonly #all: readonly Word[];
  #at = 0;
  #depth = 0;

  constructor(all: readonly Word[]) {
    this.#all = all;
  }

  get isAtEnd(): boolean {
    return this.#at >= this.#all.length;
  }

  /** The next word, unless it is quoted; `''` at the end. */
  get next(): string {
    const word = this.#all[this.#at];
    return word === undefined || word.isQuoted ? '' : word.text;
  }

  get isQuoted(): boolean {
    return this.#all[this.#at]?.isQuoted === true;
  }

  /** @throws UnreadText at the end */
  take(): Word {
    const word = this.#all[this.#at++];
    if (!word) throw new UnreadText('it ends here');
    return word;
  }

  /** Whether the next two words are these. */
  startsWith(first: string, second: string): boolean {
    return this.next === first && this.#all[this.#at + 1]?.text === second;
  }

  /** Takes the next word if it is one of these. */
  takeIf(...texts: readonly string[]): string | undefined {
    return texts.includes(this.next) ? this.take().text : undefined;
  }

  /** @throws UnreadText for another word */
  expect(text: string): void {
    if (this.takeIf(text) === undefined) throw new UnreadText(`${text} is missing`);
  }

  /** @throws UnreadText for a word that is no number */
  takeNumber(): number {
    const { text } = this.take();
    if (!/^\d+$/.test(text)) throw new UnreadText(`${text} is no number`);
    return Number(text);
  }

  /** From a place on, as a text. */
  textFrom(at: number): string {
    return this.#all
      .slice(at)
      .map(({ text, isQuoted }) => (isQuoted ? `"${text}"` : text))
      .join(' ');
  }

  get at(): number {
    return this.#at;
  }

  /**
   * Reads a part that may have another one of its kind in it.
   * @throws UnreadText where they are nested deeper than any tool prints them
   */
  inner<T>(read: () => T): T {
    if (this.#depth === depthMax) throw new UnreadText(`more than ${depthMax} expressions in each other are not read`);
    this.#depth++;
    try {
      return read();
    } finally {
      this.#depth--;
    }
  }
}

const hexadecimal = /^0x[0-9a-f]+$/;
const address = /^(?:[0-9.]+|[0-9a-f:.]*:[0-9a-f:.]*)$/;

/** A value: a number, a network, a range of numbers or addresses, or a word. */
export function valueOf({ text, isQuoted }: Word): Json {
  if (isQuoted) return text;
  if (/^\d+$/.test(text)) return Number(text);
  if (hexadecimal.test(text)) return Number(text);
  const [, network = '', length] = /^([0-9a-f.:]+|0x[0-9a-f]+)\/(\d+)$/.exec(text) ?? [];
  if (length !== undefined) return { prefix: { addr: bare(network), len: Number(length) } };
  const [, low = '', high = ''] = /^([^-]+)-([^-]+)$/.exec(text) ?? [];
  if ([low, high].every((end) => address.test(end) || hexadecimal.test(end))) return { range: [bare(low), bare(high)] };
  // `!`, `|`, `{`: an operator, or what opens a form that is not read.
  if (!/[\w*]/.test(text)) throw new UnreadText(`${text} is no value`);
  return text;
}

const bare = (text: string): Json => (/^\d+$/.test(text) || hexadecimal.test(text) ? Number(text) : text);

/** `3h`, `1d2h30m`, `500ms`: seconds; undefined for another text. */
export function secondsOf(text: string): number | undefined {
  if (!/^(?:\d+(?:d|h|ms|m|s))+$/.test(text)) return undefined;
  const units: Readonly<Record<string, number>> = { d: 86_400, h: 3_600, m: 60, s: 1, ms: 0 };
  return [...text.matchAll(/(\d+)(ms|[dhms])/g)].reduce(
    (sum, [, count, unit = '']) => sum + Number(count) * (units[unit] ?? 0),
    0,
  );
}
