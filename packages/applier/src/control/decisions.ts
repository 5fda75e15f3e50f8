import { randomBytes } from 'node:crypto';
import { stateError } from '../command-error.ts';
import type { Decision, Journal, Operator } from '../rollout/ports.ts';
import type { Decide, Probation } from './protocol.ts';

/** What an operator says to a release on probation, from the socket to the transaction. Nothing of it outlives the process. */
export class Decisions implements Operator {
  readonly #node: string;
  readonly #journal: Pick<Journal, 'open' | 'halted'>;
  #said: Decision | undefined;
  #token = '';
  #isCancelled = false;

  constructor(node: string, journal: Pick<Journal, 'open' | 'halted'>) {
    this.#node = node;
    this.#journal = journal;
  }

  /** A probation may begin: what was said so far is about another one, and so is its token. */
  forget(): void {
    this.#said = undefined;
    this.#isCancelled = false;
    this.#token = randomBytes(4).toString('hex');
  }

  /** No release is on probation from now on: an open change is a rollback's own. */
  over(): void {
    this.#token = '';
  }

  async ask(): Promise<Decision | undefined> {
    const said = this.#said;
    this.#said = undefined;
    return said;
  }

  /** What a process before this one left open, or what a halted node has open, is on probation no more. */
  get probation(): Probation | undefined {
    const { open, halted } = this.#journal;
    if (this.#token === '' || halted !== undefined) return undefined;
    return open?.phase === 'open' && open.changeKind === 'release'
      ? { version: open.version, token: this.#token }
      : undefined;
  }

  /** @throws CommandError where no release is on probation or it is cancelled, or the token is that of another probation */
  take({ decision, token }: Decide): Probation {
    const { probation } = this;
    if (!probation) throw noProbation(decision, this.#node);
    if (token !== undefined && token !== probation.token) {
      const why = 'this token is not the one of the probation in progress';
      throw stateError(
        `Cannot ${decision.kind} the release on node ${this.#node}: ${why}`,
        '`sluiced status` shows the version on probation and its token',
      );
    }
    if (this.#isCancelled && decision.kind !== 'cancel')
      throw stateError(
        `Cannot ${decision.kind} the release on node ${this.#node}: it is cancelled already`,
        '`sluiced history` shows how it ended',
      );
    this.#isCancelled = decision.kind === 'cancel';
    this.#said = decision;
    return probation;
  }
}

export const noProbation = ({ kind }: Decision, node: string) =>
  stateError(
    `Cannot ${kind} a release on node ${node}: none is on probation`,
    '`sluiced status` shows the active generation and what is in progress',
  );
