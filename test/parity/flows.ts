import { setTimeout as sleep } from 'node:timers/promises';
import { endpointOf, type Examiner, isServed, titleOf, wordsOf } from './outcomes.ts';
import type { Question } from './questions.ts';
import type { Probe } from './wire.ts';

/**
 * Clients that live through the changes of a cluster. One of UDP keeps its port: conntrack remembers its endpoint, and must forget it
 * once that is gone. One of a Service with affinity opens a new connection each time, and must meet the endpoint that it knows.
 */
export interface Fault {
  readonly question: Question;
  readonly fault: 'left an endpoint that stays' | 'stays with an endpoint that is gone';
  readonly before: string;
  readonly now: string;
}

export class Clients {
  readonly #examiner: Examiner;
  /** What became of the last packet of each. */
  #last: ReadonlyMap<string, string> = new Map();
  #packets = 0;

  constructor(examiner: Examiner) {
    this.#examiner = examiner;
  }

  get name(): string {
    return this.#examiner.plane.name;
  }

  /**
   * Every client that is known sends. To be called before anything else is asked, once the cluster has changed: a list of affinity has
   * place for 100 sources, and forgets the oldest. The node forgets all clients with affinity.
   * @param asked all questions of the cluster as it is now
   * @param withinMs how long conntrack may remember an endpoint that is gone: it is told to forget after the rules are written
   * @returns what clients have met and must not
   */
  async send(asked: readonly Question[], withinMs: number): Promise<readonly Fault[]> {
    const questions = asked.filter((question) => hasClient(question) && this.#last.has(keyOf(question)));
    const end = performance.now() + withinMs;
    const words = [...(await this.#sendOnce(questions))];
    const answers = await this.#examiner.askWidely(questions);
    const met = answers.map((one) => new Set([...one.keys()].map(endpointOf)));
    for (;;) {
      const faults = questions.flatMap((question, at) =>
        faultOf(question, this.#last.get(keyOf(question)) as string, words[at] as string, met[at] as Set<string>),
      );
      const stale = questions.filter(({ stays }) => !stays);
      const mayHeal = faults.some(({ fault }) => fault === 'stays with an endpoint that is gone');
      if (!mayHeal || performance.now() > end) return faults;
      await sleep(200);
      const again = await this.#sendOnce(stale);
      stale.forEach((question, at) => (words[questions.indexOf(question)] = again[at] as string));
    }
  }

  /** Every client sends, new ones, too: what it meets is what it must meet after the next change. To be called last. */
  async remember(asked: readonly Question[]): Promise<void> {
    const questions = asked.filter(hasClient);
    const words = await this.#sendOnce(questions);
    this.#last = new Map(questions.map((question, at) => [keyOf(question), words[at] as string]));
  }

  async #sendOnce(questions: readonly Question[]): Promise<readonly string[]> {
    this.#packets += 1;
    const probes = questions.map(({ via, protocol, target, port, sources, stays }): Probe => {
      // From 10,000 on are the ports of the examiner.
      const sport = stays ? 5_000 + this.#packets : 5_000;
      return { via, protocol, source: sources[0] as string, sport, target, port };
    });
    const outcomes = await this.#examiner.plane.send(probes);
    return outcomes.map((outcome, at) => wordsOf(probes[at] as Probe, outcome));
  }
}

const keyOf = ({ about, frontend, from, target, port, protocol, stays }: Question): string =>
  [about, frontend, from, target, port, protocol, stays].join(' ');

const hasClient = ({ protocol, stays, frontend }: Question): boolean =>
  (protocol === 'udp' || stays) && frontend !== 'unassigned port';

function faultOf(question: Question, before: string, now: string, met: ReadonlySet<string>): readonly Fault[] {
  const stays = isServed(before) && met.has(endpointOf(before));
  if (stays ? endpointOf(now) === endpointOf(before) : met.has(endpointOf(now))) return [];
  const fault = stays ? 'left an endpoint that stays' : 'stays with an endpoint that is gone';
  return [{ question, fault, before, now }];
}

export const tellFault = ({ question, fault, before, now }: Fault): string =>
  `${titleOf(question)}\n  ${fault}: ${before} → ${now}`;
