import { setTimeout as sleep } from 'node:timers/promises';
import { type Answers, endpointOf, type Examiner, isServed, titleOf, wordsOf } from './outcomes.ts';
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

/** A client, what it met before the change and now, and what new clients meet now. */
interface Client {
  readonly question: Question;
  readonly before: string;
  readonly now: string;
  readonly met: ReadonlySet<string>;
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
    return this.#examiner.node.host.name;
  }

  /**
   * Every client that is known sends. To be called before anything else is asked, once the cluster has changed: a list of affinity has
   * place for 100 sources, and forgets the oldest. The node forgets all clients with affinity.
   * @param asked all questions of the cluster as it is now
   * @param withinMs how long conntrack may remember an endpoint that is gone: it is told to forget after the rules are written
   * @returns what clients have met and must not
   */
  async send(asked: readonly Question[], withinMs: number): Promise<readonly Fault[]> {
    const all = asked.filter((question) => hasClient(question) && this.#last.has(keyOf(question)));
    const end = performance.now() + withinMs;
    const first = await this.#sendOnce(all);
    // A new connection is led by the rules as they are: one that meets the same endpoint again needs no proof that the endpoint stays.
    const known = all.map((question, at) => ({
      question,
      before: this.#last.get(keyOf(question)) as string,
      now: first[at] as string,
    }));
    const open = known.filter(({ question, before, now }) => !question.stays || endpointOf(before) !== endpointOf(now));
    const answers = await this.#examiner.askWidely(open.map(({ question }) => question));
    let clients = open.map((client, at) => ({ ...client, met: endpointsOf(answers[at] as Answers) }));
    for (;;) {
      const faults = clients.flatMap(faultOf);
      const stale = faults.filter(
        ({ question, fault }) => fault === 'stays with an endpoint that is gone' && !question.stays,
      );
      if (stale.length === 0 || performance.now() > end) return faults;
      await sleep(200);
      const flows = clients.filter(({ question }) => !question.stays);
      const again = await this.#sendOnce(flows.map(({ question }) => question));
      const moved = new Map(flows.map(({ question }, at) => [question, again[at] as string]));
      clients = clients.map((client) => ({ ...client, now: moved.get(client.question) ?? client.now }));
    }
  }

  /**
   * Every client sends, new ones, too: what it meets is what it must meet after the next change. To be called last: the kernel forgets all
   * other connections, of which there are more than a node of this size has.
   */
  async remember(asked: readonly Question[]): Promise<void> {
    await this.#examiner.node.forgetConnections();
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
    const outcomes = await this.#examiner.node.send(probes);
    return outcomes.map((outcome, at) => wordsOf(probes[at] as Probe, outcome));
  }
}

const keyOf = ({ about, frontend, from, target, port, protocol, stays }: Question): string =>
  [about, frontend, from, target, port, protocol, stays].join(' ');

const hasClient = ({ protocol, stays, frontend }: Question): boolean =>
  (protocol === 'udp' || stays) && frontend !== 'unassigned port';

const endpointsOf = (answers: Answers): ReadonlySet<string> => new Set([...answers.keys()].map(endpointOf));

function faultOf({ question, before, now, met }: Client): readonly Fault[] {
  const stays = isServed(before) && met.has(endpointOf(before));
  if (stays ? endpointOf(now) === endpointOf(before) : met.has(endpointOf(now))) return [];
  const fault = stays ? 'left an endpoint that stays' : 'stays with an endpoint that is gone';
  return [{ question, fault, before, now }];
}

export const tellFault = ({ question, fault, before, now }: Fault): string =>
  `${titleOf(question)}\n  ${fault}: ${before} → ${now}`;
