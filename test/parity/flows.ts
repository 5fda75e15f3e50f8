import { setTimeout as sleep } from 'node:timers/promises';
import { type AnswerCounts, endpointOf, type Examiner, isServed, titleOf, wordsOf } from './outcomes.ts';
import type { KubeItem } from './api-server.ts';
import type { Question } from './questions.ts';
import type { Probe } from './wire.ts';

/**
 * Clients that outlive changes of a cluster. A UDP client keeps its port: conntrack remembers its endpoint, and must forget it
 * once that is removed. A client of a Service with affinity opens a new connection each time, and must reach its endpoint.
 */
export interface FlowFault {
  readonly question: Question;
  readonly fault: 'left an endpoint that stays' | 'stays with a removed endpoint';
  readonly before: string;
  readonly now: string;
  /** What new clients meet. */
  readonly met: ReadonlySet<string>;
}

/** What one packet of a client met. */
interface Sent {
  readonly key: string;
  readonly endpoint: string;
}

/** A client, its endpoint before the change and now, and the answers that new clients get now. */
interface FlowClient {
  readonly question: Question;
  readonly before: string;
  readonly now: string;
  readonly met: ReadonlySet<string>;
}

export class Clients {
  readonly #examiner: Examiner;
  /** The last packets of the clients, with their outcomes. */
  #last: ReadonlyMap<string, string> = new Map();
  /** The same packets by source and port of the Service. */
  #sent: ReadonlyMap<string, readonly Sent[]> = new Map();
  readonly #sharesLists: boolean;
  #packets = 0;
  /** How many answers were right only because another frontend had given the client that endpoint. */
  moved = 0;

  /**
   * @param sharesLists whether the proxy remembers clients by endpoint for all frontends of a Service, as mode iptables with `xt_recent`: one
   * that policy Local sent to an endpoint of the node meets that one at the cluster IP, too, where its rule is first
   */
  constructor(examiner: Examiner, sharesLists: boolean) {
    this.#examiner = examiner;
    this.#sharesLists = sharesLists;
  }

  get name(): string {
    return this.#examiner.node.host.name;
  }

  /**
   * Sends a packet from every known client. To be called before all other questions, once the cluster has changed: an affinity list has
   * room for 100 sources, and evicts the oldest. The node forgets all clients with affinity.
   * @param questions all questions of the cluster in its present state
   * @param items that state
   * @param withinMs how long conntrack may remember a removed endpoint: flows are deleted after the rules are written
   * @returns the forbidden answers
   */
  async send(
    questions: readonly Question[],
    items: readonly KubeItem[],
    withinMs: number,
  ): Promise<readonly FlowFault[]> {
    const all = questions.filter((question) => hasClient(question) && this.#last.has(keyOf(question)));
    const end = performance.now() + withinMs;
    const serving = servingIn(items);
    const first = await this.#sendOnce(all);
    // A new connection follows the present rules: if it reaches the same endpoint again, that needs no proof that the endpoint stays.
    const sent = sentBy(all, first);
    const isElsewhere = (question: Question, now: string): boolean => {
      const [key, source] = [keyOf(question), sourceOf(question)];
      const others = [...(this.#sent.get(source) ?? []), ...(sent.get(source) ?? [])];
      return question.stays && others.some((one) => one.key !== key && one.endpoint === endpointOf(now));
    };
    const known = all.map((question, at) => ({
      question,
      before: this.#last.get(keyOf(question)) as string,
      now: first[at] as string,
    }));
    const open = known.filter(({ question, before, now }) => !question.stays || endpointOf(before) !== endpointOf(now));
    const answers = await this.#examiner.askWidely(open.map(({ question }) => ofManySources(question, questions)));
    let clients = open.map((client, at) => ({ ...client, met: endpointsOf(answers[at] as AnswerCounts) }));
    for (;;) {
      const found = clients.flatMap((client) => faultOf(client, serving));
      const faults = found.filter(({ question, now }) => !this.#sharesLists || !isElsewhere(question, now));
      const stale = faults.filter(
        ({ question, fault }) => fault === 'stays with a removed endpoint' && !question.stays,
      );
      if (stale.length === 0 || performance.now() > end) {
        this.moved += found.length - faults.length;
        return faults;
      }
      await sleep(200);
      const flows = clients.filter(({ question }) => !question.stays);
      const again = await this.#sendOnce(flows.map(({ question }) => question));
      const moved = new Map(flows.map(({ question }, at) => [question, again[at] as string]));
      clients = clients.map((client) => ({ ...client, now: moved.get(client.question) ?? client.now }));
    }
  }

  /**
   * Sends a packet from every client, new ones, too: the next change must keep its endpoint. To be called last: the kernel forgets all
   * other connections, which are more than a node of this size has room for.
   */
  async remember(all: readonly Question[]): Promise<void> {
    await this.#examiner.node.forgetConnections();
    const questions = all.filter(hasClient);
    const words = await this.#sendOnce(questions);
    this.#last = new Map(questions.map((question, at) => [keyOf(question), words[at] as string]));
    this.#sent = sentBy(questions, words);
  }

  async #sendOnce(questions: readonly Question[]): Promise<readonly string[]> {
    this.#packets += 1;
    const probes = questions.map(({ via, protocol, target, port, sources, stays }): Probe => {
      // Ports from 10,000 belong to the examiner.
      const sport = stays ? 5_000 + this.#packets : 5_000;
      return { via, protocol, source: sources[0] as string, sport, target, port };
    });
    const outcomes = await this.#examiner.node.send(probes);
    return outcomes.map((outcome, at) => wordsOf(probes[at] as Probe, outcome));
  }
}

/** The source belongs to it: with other endpoints another one of them is `endpoint itself`, and a new client. */
const keyOf = ({ about, frontend, from, target, port, protocol, stays, sources }: Question): string =>
  [about, frontend, from, target, port, protocol, stays, sources[0]].join(' ');

const sourceOf = ({ about, sources }: Question): string => `${about} ${sources[0]}`;

function sentBy(questions: readonly Question[], words: readonly string[]): ReadonlyMap<string, readonly Sent[]> {
  const all = questions.map((question, at) => ({
    source: sourceOf(question),
    key: keyOf(question),
    endpoint: endpointOf(words[at] as string),
  }));
  return Map.groupBy(all, ({ source }) => source);
}

/**
 * A client with affinity meets one endpoint, however often it asks: which ones there are, other pods of its node find out, whose packets
 * rules treat alike.
 */
function ofManySources(question: Question, all: readonly Question[]): Question {
  if (!question.stays || question.from !== 'endpoint itself') return question;
  const { about, frontend, target, port, protocol } = question;
  const pods = all.find(
    (one) =>
      one.from === 'pod here' &&
      one.about === about &&
      one.frontend === frontend &&
      one.target === target &&
      one.port === port &&
      one.protocol === protocol,
  );
  return pods ? { ...question, sources: pods.sources } : question;
}

const hasClient = ({ protocol, stays, frontend }: Question): boolean =>
  (protocol === 'udp' || stays) && frontend !== 'unassigned port';

const endpointsOf = (answers: AnswerCounts): ReadonlySet<string> => new Set([...answers.keys()].map(endpointOf));

/** `shop/web 10.244.1.5`: the endpoints that kube-proxy leaves clients of UDP with, also where none of its rules chooses them. */
function servingIn(items: readonly KubeItem[]): ReadonlySet<string> {
  const slices = items.filter(({ kind }) => kind === 'EndpointSlice') as unknown as readonly Slice[];
  return new Set(
    slices.flatMap(({ metadata: { namespace, labels }, endpoints }) =>
      endpoints
        .filter(({ conditions }) => (conditions?.serving ?? conditions?.ready) !== false)
        .flatMap(({ addresses }) => addresses.map((one) => `${namespace}/${labels[serviceName]} ${one}`)),
    ),
  );
}

const serviceName = 'kubernetes.io/service-name';

interface Slice {
  readonly metadata: { readonly namespace: string; readonly labels: Readonly<Record<string, string>> };
  readonly endpoints: readonly {
    readonly addresses: readonly string[];
    readonly conditions?: { readonly serving?: boolean; readonly ready?: boolean };
  }[];
}

/**
 * A client of UDP may stay with an endpoint of its Service that new clients do not get, such as one of another node after a change to policy
 * Local: kube-proxy deletes entries of endpoints that are gone alone (`CleanStaleEntries`).
 */
function faultOf({ question, before, now, met }: FlowClient, serving: ReadonlySet<string>): readonly FlowFault[] {
  const stays = isServed(before) && met.has(endpointOf(before));
  const [, address = ''] = now.split(' ');
  const isOfService = serving.has(`${question.about.split(':')[0]} ${address}`);
  if (!stays && !question.stays && now === before && isOfService) return [];
  if (stays ? endpointOf(now) === endpointOf(before) : met.has(endpointOf(now))) return [];
  const fault = stays ? 'left an endpoint that stays' : 'stays with a removed endpoint';
  return [{ question, fault, before, now, met }];
}

export const printFault = ({ question, fault, before, now, met }: FlowFault): string =>
  `${titleOf(question)}\n  ${fault}: ${before} → ${now}; new clients: ${[...met].toSorted().join(' | ')}`;
