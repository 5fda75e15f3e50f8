import { limits } from '../limits.ts';
import type { Change } from './changes.ts';

/** Said after everything that one process changed in one go. */
const generation = /^NEWGEN:\s+GENID=\d+\s+PID=(\d+)\s+NAME=(.*)$/;

/** What happened to a rule or a chain of iptables: it is told as the command that does it. */
const command = /^ ?EVENT: -([46]) (-t (?:nat|filter) -[A-Z] (\S+).*)$/;

/** A table of iptables goes as a whole. */
const lost = /^ ?EVENT: nft: (DEL table: table (?:nat|filter) ip6?) /;

/** Our jumps stand there, and their order counts: a reason to compare, though most of what others do there is their own business. */
const builtIn = /^(?:PREROUTING|INPUT|FORWARD|OUTPUT|POSTROUTING)$/;
/** Names one of our chains. */
const ours = / (?:SLU|SLUICE|KUBE)-/;

/**
 * Reads what `xtables-monitor --event` prints, line by line. What a process changed in one go is one change; changes of ourselves, and
 * of chains that have nothing to do with us, are passed over.
 */
export class NftEvents {
  readonly #isOwn: (pid: number, name: string) => boolean;
  #what: string[] = [];
  #concerns = false;
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
      this.#take(line);
      return undefined;
    }
    this.tells = true;
    const [what, concerns] = [this.#what, this.#concerns];
    this.#what = [];
    this.#concerns = false;
    const isOwn = this.#isOwn(Number(pid), name);
    if (!concerns || isOwn) return undefined;
    return { by: `${name} (process ${pid})`, what };
  }

  #take(line: string): void {
    const [, version, rest, chain = ''] = command.exec(line) ?? [];
    const what = rest === undefined ? lost.exec(line)?.[1] : `${version === '6' ? 'ip6tables' : 'iptables'} ${rest}`;
    if (what === undefined) return;
    const isOurs = rest === undefined || ours.test(rest);
    this.#concerns ||= isOurs || builtIn.test(chain);
    if (isOurs && this.#what.length < limits.changesToldMax) this.#what.push(shortened(what));
  }
}

const shortened = (line: string): string =>
  line.length > limits.changeCharactersMax ? `${line.slice(0, limits.changeCharactersMax)}…` : line;
