import { setTimeout as sleep } from 'node:timers/promises';
import type { ParityPacket } from '@sluice/bundle';
import { isServed, titleOf, wordsOf } from '../outcomes.ts';
import type { Question } from '../questions.ts';
import type { Probe, WiredNode } from '../wire.ts';

/**
 * Whether a node treats a packet otherwise than it did before a mistake: every frontend from every class of sources is asked with real
 * packets, and what looks different is asked again so often that chance is excluded. It knows neither the rules nor what parity says.
 */

/** The answers to a question, and how often each came. */
export type Answers = ReadonlyMap<string, number>;

export interface Asked {
  readonly answers: Answers;
  /** Clients of a Service with affinity that met two endpoints. */
  readonly moved: number;
}

/** Of seven equal answers one is missed once in 10^18. */
const triesToLearn = 282;
/** What differs for every packet shows in the first. */
const triesAtFirst = 14;
/** A share of a quarter that became 40 % is 10 standard deviations away. */
const triesForShares = 1_880;
/** As often as an answer must come, or a client move, to be no accident of a busy machine. */
const certain = 3;
/** Standard deviations; above them it is not chance: once in 10^7 questions. */
const unlikely = 5;
/** Before what looks different is asked again, silence is taken for a drop early. */
const shortQuietMs = 120;
const questionsAtOnce = 60;
const suspectsAtOnce = 12;
/** One of three endpoints is missed once in 10^5. */
const timesForgotten = 30;
const triesOfClient = 4;
const clientsOfTime = 24;
/** Behind the affinity time of a mistake in it: one second. */
const pauseMs = 1_700;

export class PacketJudge {
  readonly #node: WiredNode;
  readonly #questions: readonly Question[];
  readonly #usual = new Map<Question, Asked>();
  readonly #shares = new Map<Question, Asked>();
  #sports = new Map<string, number>();

  constructor(node: WiredNode, questions: readonly Question[]) {
    this.#node = node;
    this.#questions = questions;
  }

  /** Learns how the node treats packets as it is now. */
  async learn(): Promise<void> {
    for (let at = 0; at < this.#questions.length; at += questionsAtOnce) {
      const some = this.#questions.slice(at, at + questionsAtOnce);
      const asked = await this.#askInTurns(some, triesToLearn);
      for (const [index, one] of asked.entries()) this.#usual.set(some[index]!, one);
      await this.forget();
    }
    const chosen = this.#questions.filter((question) => this.#isChoice(question));
    const counted = await this.#ask(chosen, triesForShares);
    for (const [index, one] of counted.entries()) this.#shares.set(chosen[index]!, one);
    await this.forget();
  }

  /** Of those whose shares are counted: one class of clients meets every list of endpoints. */
  #isChoice(question: Question): boolean {
    const { answers } = this.#usual.get(question)!;
    return !question.stays && ['pod here', 'outside'].includes(question.from) && answers.size > 1;
  }

  /** Ports of clients are used again once the node has forgotten its connections. */
  async forget(): Promise<void> {
    await this.#node.forgetConnections();
    this.restart();
  }

  /** After a load, which forgets connections. */
  restart(): void {
    this.#sports = new Map();
  }

  /**
   * @param shares whether to count endpoints, too
   * @param time whether to ask clients of Services with affinity a second time after a pause
   * @returns a question with an answer that it did not have, in words; undefined: there is none
   */
  async difference(shares: boolean, time: boolean): Promise<string | undefined> {
    const first = await this.#ask(this.#questions, triesAtFirst, shortQuietMs);
    const suspected = this.#questions.filter((question, at) => isSuspect(this.#usual.get(question)!, first[at]!));
    // Last what no Service answers: a difference at a frontend says more.
    const suspects = suspected.toSorted((a, b) => Number(isUnassigned(a)) - Number(isUnassigned(b)));
    // On a busy machine an answer may be late, so that many questions are suspect.
    for (let at = 0; at < suspects.length; at += suspectsAtOnce) {
      const found = await this.#certain(suspects.slice(at, at + suspectsAtOnce), triesToLearn, this.#usual);
      if (found !== undefined) return found;
    }
    if (!(shares || time)) return undefined;
    return time ? this.#differentTime() : this.#certain([...this.#shares.keys()], triesForShares, this.#shares);
  }

  async #certain(
    questions: readonly Question[],
    tries: number,
    usual: ReadonlyMap<Question, Asked>,
  ): Promise<string | undefined> {
    const again = await this.#askInTurns(questions, tries);
    for (const [at, question] of questions.entries()) {
      const why = differenceOf(question, usual.get(question)!, again[at]!);
      if (why !== undefined) return `${titleOf(question)}: ${why}`;
    }
    return undefined;
  }

  /** Clients of Services with affinity, before and after a pause. */
  async #differentTime(): Promise<string | undefined> {
    const asked = this.#questions.filter(
      (question) => question.stays && question.sources.length > 1 && this.#usual.get(question)!.answers.size > 1,
    );
    for (const turn of turnsOf(asked)) {
      const found = await this.#moved(turn);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  async #moved(asked: readonly Question[]): Promise<string | undefined> {
    await this.#node.forgetClients();
    const probes = (): readonly Probe[] =>
      asked.flatMap((question) => Array.from({ length: clientsOfTime }, (_, n) => this.#probe(question, n)));
    const [one, two] = [probes(), probes()];
    const before = await this.#node.send(one);
    await sleep(pauseMs);
    const after = await this.#node.send(two);
    for (const [at, question] of asked.entries()) {
      const moved = Array.from({ length: clientsOfTime }, (_, n) => at * clientsOfTime + n).filter(
        (n) => wordsOf(one[n]!, before[n]!) !== wordsOf(two[n]!, after[n]!),
      );
      if (moved.length >= certain)
        return `${titleOf(question)}: ${moved.length} of ${clientsOfTime} clients moved after a pause`;
    }
    return undefined;
  }

  /** Sends a packet often. @returns the words of its outcomes with their counts; undefined: no wire takes it */
  async outcomes(packet: ParityPacket): Promise<Asked | undefined> {
    const question = questionOf(packet);
    return question && (await this.#ask([question], triesForShares))[0];
  }

  /**
   * Sends a packet of a Service with affinity: one client shows one endpoint, so it is forgotten again and again.
   * @param pauses whether it waits each time for the time of a mistake to pass
   */
  async oneClient(packet: ParityPacket, pauses: boolean): Promise<Asked | undefined> {
    const question = questionOf(packet);
    if (!question) return undefined;
    const answers = new Map<string, number>();
    let moved = 0;
    for (let n = 0; n < timesForgotten; n++) {
      await this.#node.forgetClients();
      await this.forget();
      const words = new Set<string>();
      for (const wait of pauses ? [0, pauseMs] : [0]) {
        await sleep(wait);
        const [asked] = await this.#ask([question], triesOfClient, shortQuietMs);
        for (const [text, count] of asked!.answers) {
          words.add(text);
          answers.set(text, (answers.get(text) ?? 0) + count);
        }
      }
      if (words.size > 1) moved++;
    }
    return { answers, moved };
  }

  async #askInTurns(questions: readonly Question[], tries: number): Promise<readonly Asked[]> {
    const found = new Map<Question, Asked>();
    for (const turn of turnsOf(questions)) {
      if (turn.some(({ stays }) => stays)) await this.#node.forgetClients();
      const asked = await this.#ask(turn, tries);
      for (const [at, question] of turn.entries()) found.set(question, asked[at]!);
    }
    return questions.map((question) => found.get(question)!);
  }

  async #ask(questions: readonly Question[], tries: number, quietMs?: number): Promise<readonly Asked[]> {
    // With affinity each client asks twice.
    const clientOf = (n: number, { stays, sources }: Question): number =>
      stays ? n % Math.min(tries / 2, sources.length) : n;
    const probes = questions.flatMap((question) =>
      Array.from({ length: tries }, (_, n) => this.#probe(question, clientOf(n, question))),
    );
    const outcomes = probes.length === 0 ? [] : await this.#node.send(probes, quietMs);
    return questions.map((question, at): Asked => {
      const answers = new Map<string, number>();
      const byClient = new Map<string, Set<string>>();
      for (let n = at * tries; n < (at + 1) * tries; n++) {
        const words = shownWords(question, wordsOf(probes[n]!, outcomes[n]!));
        answers.set(words, (answers.get(words) ?? 0) + 1);
        const { source } = probes[n]!;
        byClient.set(source, (byClient.get(source) ?? new Set()).add(words));
      }
      const moved = question.stays ? [...byClient.values()].filter((words) => words.size > 1).length : 0;
      return { answers, moved };
    });
  }

  #probe({ via, protocol, target, port, sources }: Question, index: number): Probe {
    const source = sources[index % sources.length]!;
    const key = `${protocol === 'tcp-rst' ? 'tcp' : protocol} ${source}`;
    const sport = (this.#sports.get(key) ?? firstSport) + 1;
    this.#sports.set(key, sport);
    return { via, protocol, source, sport, target, port };
  }
}

const firstSport = 10_000;

/**
 * Questions in turns, each of which asks one frontend of a Service with affinity: lists of `xt_recent` belong to endpoints, so an endpoint
 * that a client met at one frontend is the one that it meets at another, too.
 */
function turnsOf(questions: readonly Question[]): readonly (readonly Question[])[] {
  const turns: Question[][] = [];
  const asked = new Map<string, number>();
  for (const question of questions) {
    const client = `${question.about} ${question.sources[0]}`;
    const turn = question.stays ? (asked.get(client) ?? 0) : 0;
    if (question.stays) asked.set(client, turn + 1);
    (turns[turn] ??= []).push(question);
  }
  return turns;
}

const isUnassigned = ({ frontend }: Question): boolean => frontend === 'unassigned port';

/** A later packet of a connection is the answer to its first. @returns undefined: no wire takes the packet */
function questionOf({ from, in: via = '', to, port, protocol, state }: ParityPacket): Question | undefined {
  if (!['', 'pod0', 'eth0'].includes(via)) return undefined;
  return {
    about: 'packet',
    frontend: '',
    from: via === '' && !/^127\.|^::1$/.test(from) ? 'node' : '',
    via: via as Probe['via'],
    family: to.includes(':') ? 'IPv6' : 'IPv4',
    protocol: state === 'invalid' ? 'tcp-rst' : protocol,
    target: to,
    port,
    sources: [from],
    stays: false,
  };
}

/** Packets of the node itself have one of its addresses, masqueraded or not; only for cluster IPs does parity compare it. */
const shownWords = ({ from, frontend }: Question, words: string): string =>
  from === 'node' && frontend !== 'cluster IP' ? words.replace(/ as [0-9a-f.:]+/, '') : words;

function isSuspect(usual: Asked, { answers, moved }: Asked): boolean {
  const isNew = [...answers.keys()].some((words) => !usual.answers.has(words));
  return isNew || moved > usual.moved || [...usual.answers.keys()].some((words) => !answers.has(words));
}

function differenceOf({ stays, sources }: Question, usual: Asked, { answers, moved }: Asked): string | undefined {
  // One client with affinity: its endpoint is chance.
  const isChoice = stays && sources.length === 1;
  const texts = [usual.answers, answers].map((one) => (isChoice ? served(one) : one)) as [Answers, Answers];
  const why = unlike(...texts, stays);
  if (why !== undefined) return why;
  return moved >= usual.moved + certain ? `${moved} clients met two endpoints` : undefined;
}

function served(answers: Answers): Answers {
  const found = new Map<string, number>();
  for (const [words, count] of answers) {
    const key = isServed(words) ? 'served' : words;
    found.set(key, (found.get(key) ?? 0) + count);
  }
  return found;
}

/** Why the answers to one client are not those of one node; undefined: they may be. @param isSticky whether it was asked as one client of a Service with affinity */
export function unlikeClients(one: Asked, two: Asked, isSticky: boolean): string | undefined {
  const moved = Math.abs(two.moved - one.moved);
  return moved >= certain
    ? `${moved} more or fewer clients met two endpoints`
    : unlike(one.answers, two.answers, isSticky);
}

/** Why two counts of answers are not of one distribution; undefined: they may be. @param setsOnly whether only the answers count, not how often each came */
export function unlike(one: Answers, two: Answers, setsOnly = false): string | undefined {
  const only = (a: Answers, b: Answers): string | undefined =>
    [...a].find(([words, count]) => count >= certain && !b.has(words))?.[0];
  const [lost, fresh] = [only(one, two), only(two, one)];
  const text = (answers: Answers): string => [...answers].map(([words, count]) => `${words} ×${count}`).join(' | ');
  if (lost !== undefined || fresh !== undefined) return `${text(one)} → ${text(two)}`;
  return setsOnly || deviation(one, two) < unlikely ? undefined : `${text(one)} → ${text(two)}`;
}

/** The chi-square statistic of two counts, as standard deviations of a normal distribution (Wilson and Hilferty). */
function deviation(one: Answers, two: Answers): number {
  const words = [...new Set([...one.keys(), ...two.keys()])];
  const freedom = words.length - 1;
  if (freedom === 0) return 0;
  const sum = (answers: Answers): number => [...answers.values()].reduce((all, count) => all + count, 0);
  const [a, b] = [sum(one), sum(two)];
  let chi = 0;
  for (const word of words) {
    const [left, right] = [one.get(word) ?? 0, two.get(word) ?? 0];
    const share = (left + right) / (a + b);
    chi += (left - a * share) ** 2 / (a * share) + (right - b * share) ** 2 / (b * share);
  }
  const spread = 2 / (9 * freedom);
  return (Math.cbrt(chi / freedom) - (1 - spread)) / Math.sqrt(spread);
}
