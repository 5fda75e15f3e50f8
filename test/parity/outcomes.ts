import { isDeepStrictEqual } from 'node:util';
import type { Question } from './questions.ts';
import { moreAddresses, type ProbeOutcome, type Probe, type WiredNode } from './wire.ts';

/** Attempts for each question; one endpoint of four is missed by one question in fourteen, which is repeated. */
const tries = 14;
/** Attempts for a question whose answers differ: one endpoint of seven is missed once in 10^5, one of four once in 10^11. */
const triesAgain = moreAddresses - 1;

/** The answers to one question, in words, and the count of each. */
export type AnswerCounts = ReadonlyMap<string, number>;

/** Probes one node exclusively: new source ports each time, so that no connection is used twice. */
export class Examiner {
  readonly node: WiredNode;
  readonly #sports = new Map<string, number>();
  #sent = 0;

  constructor(node: WiredNode) {
    this.node = node;
  }

  /** The packets so far. */
  get sent(): number {
    return this.#sent;
  }

  /** @returns the answers to each question, in their order. With affinity each source asks twice */
  async ask(questions: readonly Question[]): Promise<readonly AnswerCounts[]> {
    return this.#send(questions, tries, (n, { stays }) => (stays ? n % (tries / 2) : n));
  }

  /**
   * As often as it takes to meet every endpoint; with affinity each source asks twice. Endpoints remember a client for all frontends of
   * their Service, so that answers to one question would depend on the questions before: those of one client and Service are asked
   * separately, and the node forgets its clients in between.
   */
  async askWidely(questions: readonly Question[]): Promise<readonly AnswerCounts[]> {
    const free = questions.filter(({ stays }) => !stays);
    const answers = await this.#send(free, triesAgain, (n) => n);
    const found = new Map(free.map((question, at) => [question, answers[at] as AnswerCounts]));
    for (const round of roundsOf(questions.filter(({ stays }) => stays))) {
      await this.node.forgetClients();
      const ofRound = await this.#send(round, 2 * triesAgain, (n) => n % triesAgain);
      for (const [at, question] of round.entries()) found.set(question, ofRound[at] as AnswerCounts);
    }
    return questions.map((question) => found.get(question) as AnswerCounts);
  }

  async #send(
    questions: readonly Question[],
    count: number,
    sourceOf: (n: number, question: Question) => number,
  ): Promise<readonly AnswerCounts[]> {
    const probes = questions.flatMap((question) =>
      Array.from({ length: count }, (_, n) => this.#probe(question, sourceOf(n, question))),
    );
    this.#sent += probes.length;
    const outcomes = await this.node.send(probes);
    const part = <T>(all: readonly T[], at: number): readonly T[] => all.slice(at * count, (at + 1) * count);
    return questions.map((question, at) => answersOf(question, part(probes, at), part(outcomes, at)));
  }

  /** Every port of a client has one target: mode ipvs recognizes an answer by client and endpoint alone, whichever frontend was asked. */
  #probe({ via, protocol, target, port, sources }: Question, index: number): Probe {
    const source = sources[index % sources.length] as string;
    const key = `${protocol === 'tcp-rst' ? 'tcp' : protocol} ${source}`;
    const sport = (this.#sports.get(key) ?? firstSport) + 1;
    this.#sports.set(key, sport);
    return { via, protocol, source, sport, target, port };
  }
}

/** In each round one question of every class of clients about every port of a Service. */
function roundsOf(questions: readonly Question[]): readonly (readonly Question[])[] {
  const met = new Map<string, number>();
  const rounds: Question[][] = [];
  for (const question of questions) {
    const key = `${question.about} ${question.sources.join()}`;
    const round = met.get(key) ?? 0;
    met.set(key, round + 1);
    (rounds[round] ??= []).push(question);
  }
  return rounds;
}

/** Below are the ports of clients that keep theirs (`flows.ts`). */
const firstSport = 10_000;

const moved = 'one source at two endpoints';

function answersOf(question: Question, probes: readonly Probe[], outcomes: readonly ProbeOutcome[]): AnswerCounts {
  const answers = new Map<string, number>();
  const bySource = new Map<string, Set<string>>();
  outcomes.forEach((outcome, index) => {
    const probe = probes[index] as Probe;
    const words = wordsOf(probe, outcome);
    answers.set(words, (answers.get(words) ?? 0) + 1);
    bySource.set(probe.source, (bySource.get(probe.source) ?? new Set()).add(words));
  });
  const hasMoved = question.stays && [...bySource.values()].some((words) => words.size > 1);
  return hasMoved ? answers.set(moved, 1) : answers;
}

/** The outcome of a packet, in words. */
export function wordsOf(probe: Probe, { kind, via, source, target, port, back }: ProbeOutcome): string {
  if (kind === 'reject' || kind === 'drop') return kind;
  const as = source === probe.source ? '' : ` as ${source}`;
  if (kind === 'local') return `node ${target} ${port}${as}`;
  return `${via} ${target} ${port}${as}${back || probe.protocol === 'tcp-rst' ? '' : ', no answer back'}`;
}

/** The endpoint of an answer, without the address that it saw. */
export const endpointOf = (words: string): string => words.split(/ as |, /)[0] as string;

export const isServed = (words: string): boolean => words !== 'reject' && words !== 'drop';

/** A question with different answers from two nodes. */
export interface AnswerDifference {
  readonly question: Question;
  readonly theirs: AnswerCounts;
  readonly ours: AnswerCounts;
}

/**
 * Asks both; where the answers differ, repeats the question until chance is excluded.
 * @param known the answers of `theirs`
 * @param isExplained whether a difference is a known one, whose question is not repeated
 */
export async function differencesOf(
  theirs: Examiner,
  ours: Examiner,
  questions: readonly Question[],
  known: readonly AnswerCounts[],
  isExplained: (difference: AnswerDifference) => boolean = () => false,
): Promise<{
  readonly differences: readonly AnswerDifference[];
  readonly explained: readonly AnswerDifference[];
  readonly ours: readonly AnswerCounts[];
}> {
  const first = await ours.ask(questions);
  const unlike = questions.flatMap((question, at): readonly AnswerDifference[] => {
    const [left, right] = [known[at] as AnswerCounts, first[at] as AnswerCounts];
    const difference = { question, theirs: left, ours: right };
    return isEquivalent(difference) ? [] : [difference];
  });
  const [explained, open] = [unlike.filter(isExplained), unlike.filter((one) => !isExplained(one))];
  const asked = open.map(({ question }) => question);
  const [left, right] = [await theirs.askWidely(asked), await ours.askWidely(asked)];
  const differences = asked.flatMap((question, at): readonly AnswerDifference[] => {
    const difference = { question, theirs: left[at] as AnswerCounts, ours: right[at] as AnswerCounts };
    return isEquivalent(difference) || isExplained(difference) ? [] : [difference];
  });
  return { differences, explained, ours: first };
}

/** The endpoint of one client with affinity is random: only that it is served counts. */
function isEquivalent({ question: { stays, sources }, theirs, ours }: AnswerDifference): boolean {
  const [a, b] = [theirs, ours].map(
    (answers) => new Set([...answers.keys()].map(stays && sources.length === 1 ? servedOr : same)),
  );
  return isDeepStrictEqual(a, b);
}

const same = (words: string): string => words;
const servedOr = (words: string): string => (isServed(words) && words !== moved ? 'served' : words);

export function titleOf({ about, frontend, from, target, port, protocol, stays }: Question): string {
  return `${from} → ${about} ${frontend} ${target} ${port}/${protocol}${stays ? ', affinity' : ''}`;
}

export function printDifference({ question, theirs, ours }: AnswerDifference): string {
  const words = (answers: AnswerCounts): string => [...answers.keys()].toSorted().join(' | ');
  return `${titleOf(question)}\n  kube-proxy: ${words(theirs)}\n  sluice:     ${words(ours)}`;
}

/**
 * The deviation of the shares of endpoints from equal ones, over all questions without affinity: the chi-square statistic, in standard
 * deviations of its random distribution. Above 5 it is not chance.
 */
export function unevenness(questions: readonly Question[], answers: readonly AnswerCounts[]): number {
  let total = 0;
  let freedom = 0;
  questions.forEach(({ stays }, at) => {
    const counts = [...(answers[at] as AnswerCounts).values()];
    if (stays || counts.length < 2) return;
    const expected = counts.reduce((sum, count) => sum + count, 0) / counts.length;
    total += counts.reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0);
    freedom += counts.length - 1;
  });
  return freedom === 0 ? 0 : (total - freedom) / Math.sqrt(2 * freedom);
}
