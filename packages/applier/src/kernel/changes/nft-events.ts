import { limits } from '../../limits.ts';
import type { ForeignChange } from './foreign-change.ts';

/** The line after all changes of one process in one transaction. */
const generation = /^NEWGEN:\s+GENID=\d+\s+PID=(\d+)\s+NAME=(.*)$/;

/** A change of any table of iptables. */
const ofIptables = /^ ?EVENT: -[46] /;

/** A table of another name that came or went. */
const ofOthers = /^ ?EVENT: nft: (?:NEW|DEL) table: table (?!sluice inet )/;

/** A change of an iptables rule or chain, printed as the command that makes it. */
const command = /^ ?EVENT: -([46]) (-t (?:nat|filter) -[A-Z] (\S+).*)$/;

/** An iptables table that was removed as a whole. */
const lost = /^ ?EVENT: nft: (DEL table: table (?:nat|filter) ip6?) /;

/** The chains with our jumps, whose order counts: a reason to compare, though most foreign changes there do not concern us. */
const builtIn = /^(?:PREROUTING|INPUT|FORWARD|OUTPUT|POSTROUTING)$/;
/** Names one of our chains. */
const ours = / (?:SLU|SLUICE|KUBE)-/;

/**
 * Reads the output of `xtables-monitor --event`, line by line. All changes of a process in one transaction are one change; our own changes,
 * and those of unrelated chains, are ignored.
 *
 * Changes of elements have no event of their own, only the line at the end of a transaction. In mode nftables one without any event of
 * iptables or of a foreign table may concern us.
 */
export class NftEvents {
  readonly #isOwn: (pid: number, name: string) => boolean;
  #what: string[] = [];
  #concerns = false;
  /** Whether the change is certainly one of other tables. */
  #isOfOthers = false;
  readonly #isNft: () => boolean;
  /** Changes that were reported yet, including our own. */
  reports = 0;

  /**
   * @param isOwn called once for each change, with the process that made it according to the kernel
   * @param isNft whether the node runs mode nftables now
   */
  constructor(isOwn: (pid: number, name: string) => boolean, isNft = () => false) {
    this.#isNft = isNft;
    this.#isOwn = isOwn;
  }

  /** @returns the change that this line completes, if it concerns us */
  read(line: string): ForeignChange | undefined {
    const [, pid, name = ''] = generation.exec(line) ?? [];
    if (pid === undefined) {
      this.#take(line);
      return undefined;
    }
    this.reports += 1;
    const [what, concerns] = [this.#what, this.#concerns || (!this.#isOfOthers && this.#isNft())];
    this.#what = [];
    this.#concerns = false;
    this.#isOfOthers = false;
    const isOwn = this.#isOwn(Number(pid), name);
    if (!concerns || isOwn) return undefined;
    return { by: `${name} (process ${pid})`, what };
  }

  #take(line: string): void {
    this.#isOfOthers ||= ofIptables.test(line) || ofOthers.test(line);
    const [, version, rest, chain = ''] = command.exec(line) ?? [];
    const what = rest === undefined ? lost.exec(line)?.[1] : `${version === '6' ? 'ip6tables' : 'iptables'} ${rest}`;
    if (what === undefined) return;
    const isOurs = rest === undefined || ours.test(rest);
    this.#concerns ||= isOurs || builtIn.test(chain);
    if (isOurs && this.#what.length < limits.changesShownMax) this.#what.push(shortened(what));
  }
}

const shortened = (line: string): string =>
  line.length > limits.changeCharactersMax ? `${line.slice(0, limits.changeCharactersMax)}…` : line;
