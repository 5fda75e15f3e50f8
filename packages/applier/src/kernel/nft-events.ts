import { limits } from '../limits.ts';
import type { Change } from './changes.ts';

/** Said after everything that one process changed in one go. */
const generation = /^# new generation \d+ by process (\d+) \((.*)\)$/;

/** A table of iptables as a whole, or a chain in it. */
const thing =
  /^(?:add|insert|create|delete|replace|flush) (?:table ip6? (?:nat|filter)$|(?:rule|chain) ip6? (?:nat|filter) (\S+))/;

/** Our own chains, and the built-in ones: our jumps stand there, and their order counts. */
const concerning = /^(?:SLU-|SLUICE-|KUBE-|(?:PREROUTING|INPUT|FORWARD|OUTPUT|POSTROUTING)$)/;

/**
 * Reads what `nft monitor` prints, line by line. What a process changed in one go is one change; changes of ourselves, and of chains
 * that have nothing to do with us, are passed over.
 */
export class NftEvents {
  readonly #isOwn: (pid: number) => boolean;
  #what: string[] = [];

  constructor(isOwn: (pid: number) => boolean) {
    this.#isOwn = isOwn;
  }

  /** @returns the change that the line ends, if it does and concerns us */
  read(line: string): Change | undefined {
    const [, pid, name] = generation.exec(line) ?? [];
    if (pid === undefined) {
      if (this.#what.length < limits.changesToldMax && concerns(line)) this.#what.push(shortened(line));
      return undefined;
    }
    const what = this.#what;
    this.#what = [];
    if (what.length === 0 || this.#isOwn(Number(pid))) return undefined;
    return { by: `${name} (process ${pid})`, what };
  }
}

function concerns(line: string): boolean {
  const match = thing.exec(line);
  return match !== null && (match[1] === undefined || concerning.test(match[1]));
}

const shortened = (line: string): string =>
  line.length > limits.changeCharactersMax ? `${line.slice(0, limits.changeCharactersMax)}…` : line;
