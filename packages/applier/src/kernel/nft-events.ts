import { limits } from '../limits.ts';
import type { Change } from './changes.ts';

/** Said after everything that one process changed in one go. */
const generation = /^NEWGEN:\s+GENID=\d+\s+PID=(\d+)\s+NAME=(.*)$/;

/** What happened to a rule or a chain of iptables: it is told as the command that does it. */
const command = /^ ?EVENT: -([46]) (-t (?:nat|filter) -[A-Z] (\S+).*)$/;

/** A table of iptables goes as a whole. */
const lost = /^ ?EVENT: nft: (DEL table: table (?:nat|filter) ip6?) /;

/** Our own chains, and the built-in ones: our jumps stand there, and their order counts. */
const concerning = /^(?:SLU-|SLUICE-|KUBE-|(?:PREROUTING|INPUT|FORWARD|OUTPUT|POSTROUTING)$)/;

/**
 * Reads what `xtables-monitor --event` prints, line by line. What a process changed in one go is one change; changes of ourselves, and
 * of chains that have nothing to do with us, are passed over.
 */
export class NftEvents {
  readonly #isOwn: (pid: number, name: string) => boolean;
  #what: string[] = [];
  /** Whether anybody's change was told yet, our own ones too. */
  tells = false;

  /** @param isOwn asked once for each change, with who the kernel says made it */
  constructor(isOwn: (pid: number, name: string) => boolean) {
    this.#isOwn = isOwn;
  }

  /** @returns the change that the line ends, if it does and concerns us */
  read(line: string): Change | undefined {
    const [, pid, name = ''] = generation.exec(line) ?? [];
    if (pid === undefined) {
      const what = this.#what.length < limits.changesToldMax ? concern(line) : undefined;
      if (what !== undefined) this.#what.push(shortened(what));
      return undefined;
    }
    this.tells = true;
    const what = this.#what;
    this.#what = [];
    const isOwn = this.#isOwn(Number(pid), name);
    if (what.length === 0 || isOwn) return undefined;
    return { by: `${name} (process ${pid})`, what };
  }
}

/** What a line tells, if that concerns us. */
function concern(line: string): string | undefined {
  const [, version, rest, chain = ''] = command.exec(line) ?? [];
  if (rest !== undefined && concerning.test(chain)) return `${version === '6' ? 'ip6tables' : 'iptables'} ${rest}`;
  return lost.exec(line)?.[1];
}

const shortened = (line: string): string =>
  line.length > limits.changeCharactersMax ? `${line.slice(0, limits.changeCharactersMax)}…` : line;
