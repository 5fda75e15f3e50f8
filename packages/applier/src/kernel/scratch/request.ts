import { limits } from '../../limits.ts';
import type { RuleStore } from '../tools.ts';
import { partNames, type PartName } from './answer.ts';
import type { RehearsalLoad } from './load.ts';
import { linesOf, readersOf, RequestError } from './lines.ts';

/**
 * One rehearsal as bytes on a stream socket. Text in ASCII:
 *
 * ```
 * sluice-rehearsal/1 nft          the store: nft or legacy
 * sets                            parts, each at most once, in the order sets, servers, ipv4, ipv6, nft
 * 1234                            chunks: a length, a newline, and so many bytes of the part's text
 * …
 * 0                               the end of the part
 * end
 * ```
 *
 * No tool, path or argument is transmitted. The server decides by the store and the name of a part which tool reads it, and gives a tool
 * only lines that the grammar of that part accepts.
 */
const protocol = 'sluice-rehearsal/1';

/** The bytes of a request, each piece produced on demand. */
export function* printRequest({ backend, sets, servers, rules, nft }: RehearsalLoad): Generator<Buffer> {
  yield Buffer.from(`${protocol} ${backend}\n`);
  yield* printPart('sets', [sets]);
  yield* printPart('servers', [servers]);
  for (const [family, text] of rules) yield* printPart(family, text);
  yield* printPart('nft', [nft]);
  yield Buffer.from('end\n');
}

function* printPart(name: PartName, sections: Iterable<string>): Generator<Buffer> {
  let isOpen = false;
  for (const section of sections) {
    for (let at = 0; at < section.length; at += limits.rehearsalChunkBytesMax) {
      const bytes = Buffer.from(section.slice(at, at + limits.rehearsalChunkBytesMax), 'latin1');
      yield Buffer.concat([Buffer.from(`${isOpen ? '' : `${name}\n`}${bytes.length}\n`), bytes]);
      isOpen = true;
    }
  }
  if (isOpen) yield Buffer.from('0\n');
}

/** A part of a received request. */
export interface RequestPart {
  readonly name: PartName;
  /** Whole lines that the part's grammar accepts, in pieces as they come; throws a `RequestError` at the first invalid one. */
  readonly text: AsyncIterable<string>;
}

/** A received request: each part's text must be read before the next part. */
interface RehearsalRequest {
  readonly backend: RuleStore;
  readonly parts: AsyncIterable<RequestPart>;
}

/**
 * Reads a request as it comes. Only the current piece is in memory.
 * @throws RequestError when it does not begin as a request; parts and their texts throw it later
 */
export async function readRequest(source: AsyncIterable<Buffer>): Promise<RehearsalRequest> {
  const intake = new Intake(source);
  const [word, backend, ...rest] = (await intake.line()).split(' ');
  if (word !== protocol || (backend !== 'nft' && backend !== 'legacy') || rest.length > 0)
    throw new RequestError(`the first line is not \`${protocol} nft\` or \`${protocol} legacy\``);
  return { backend, parts: readParts(intake) };
}

async function* readParts(intake: Intake): AsyncGenerator<RequestPart> {
  let allowed: readonly PartName[] = partNames;
  for (let line = await intake.line(); line !== 'end'; line = await intake.line()) {
    const at = allowed.findIndex((name) => name === line);
    const name = allowed[at];
    if (name === undefined) throw new RequestError('a part has an unknown name, or is out of order');
    allowed = allowed.slice(at + 1);
    yield { name, text: linesOf(chunks(intake, name), readersOf(name)) };
  }
  if (intake.hasMore) throw new RequestError('trailing data after the end');
}

async function* chunks(intake: Intake, name: PartName): AsyncGenerator<string> {
  const isSetup = name === 'sets' || name === 'servers';
  let left: number = isSetup ? limits.rehearsalSetupBytesMax : limits.rehearsalBytesMax;
  for (let line = await intake.line(); line !== '0'; line = await intake.line()) {
    const length = /^[1-9][0-9]{0,5}$/.test(line) ? Number(line) : Infinity;
    if (length > limits.rehearsalChunkBytesMax) throw new RequestError('the length of a chunk is missing or too large');
    left -= length;
    if (left < 0) throw new RequestError(`part ${name} is too large`);
    yield await intake.take(length);
  }
}

/** Names of parts and lengths are shorter. */
const headBytesMax = 64;

/** Reads bytes in order, by lines and by lengths. */
class Intake {
  readonly #source: AsyncIterator<Buffer>;
  #held: Buffer = Buffer.alloc(0);
  #left: number = limits.rehearsalBytesMax;

  constructor(source: AsyncIterable<Buffer>) {
    this.#source = source[Symbol.asyncIterator]();
  }

  get hasMore(): boolean {
    return this.#held.length > 0;
  }

  /** A short line without its newline. */
  async line(): Promise<string> {
    for (;;) {
      const end = this.#held.indexOf(0x0a);
      if (end > headBytesMax || (end < 0 && this.#held.length > headBytesMax))
        throw new RequestError('a line is too long');
      if (end >= 0) return this.#cut(end + 1).slice(0, -1);
      await this.#more();
    }
  }

  async take(length: number): Promise<string> {
    while (this.#held.length < length) await this.#more();
    return this.#cut(length);
  }

  #cut(length: number): string {
    const text = this.#held.toString('latin1', 0, length);
    this.#held = this.#held.subarray(length);
    return text;
  }

  async #more(): Promise<void> {
    const { value, done } = await this.#source.next();
    if (done === true) throw new RequestError('the request is truncated');
    this.#left -= value.length;
    if (this.#left < 0) throw new RequestError('the request is too large');
    this.#held = this.#held.length === 0 ? value : Buffer.concat([this.#held, value]);
  }
}
