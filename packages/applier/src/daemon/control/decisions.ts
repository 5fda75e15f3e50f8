import { randomBytes } from 'node:crypto';
import { stateError } from '../../command-error.ts';
import type { Decision, Operator, ProbationProgress } from '../../ports/operator.ts';
import type { Journal } from '../../ports/journal.ts';
import type { Decide, ProbationStatus } from './protocol.ts';

/** An operator's decision about a release on probation, on its way from the socket to the transaction. Not kept across a restart. */
export class Decisions implements Operator {
  readonly #node: string;
  readonly #journal: Pick<Journal, 'open' | 'halted'>;
  #decision: Decision | undefined;
  #token = '';
  #isCancelled = false;
  #progress: (() => ProbationProgress) | undefined;

  constructor(node: string, journal: Pick<Journal, 'open' | 'halted'>) {
    this.#node = node;
    this.#journal = journal;
  }

  /** Probation may begin: earlier decisions, and their token, were about another release. */
  forget(): void {
    this.#decision = undefined;
    this.#isCancelled = false;
    this.#token = randomBytes(4).toString('hex');
  }

  /** No release is on probation from now on: an open change is a rollback's own. */
  over(): void {
    this.#token = '';
  }

  shows(progress: (() => ProbationProgress) | undefined): void {
    this.#progress = progress;
  }

  async ask(): Promise<Decision | undefined> {
    const decision = this.#decision;
    this.#decision = undefined;
    return decision;
  }

  /** The release on probation. Not one that an earlier process left open, nor an open change of a halted node. */
  get probation(): ProbationStatus | undefined {
    const { open, halted } = this.#journal;
    if (this.#token === '' || halted !== undefined) return undefined;
    return open?.phase === 'open' && open.changeKind === 'release'
      ? {
          version: open.version,
          generation: open.to.number,
          token: this.#token,
          decision: this.#decision?.kind ?? null,
          progress: this.#progress?.() ?? null,
        }
      : undefined;
  }

  /** @throws CommandError where no release is on probation or it is cancelled, or the token is that of another probation */
  take({ decision, token }: Decide): ProbationStatus {
    const { probation } = this;
    if (!probation) throw noProbation(decision, this.#node);
    if (token !== undefined && token !== probation.token) {
      const why = 'the token belongs to another probation';
      throw stateError(
        `Cannot ${decision.kind} the release on node ${this.#node}: ${why}`,
        'Run `sluiced status` for the version on probation and its token',
      );
    }
    if (this.#isCancelled && decision.kind !== 'cancel')
      throw stateError(
        `Cannot ${decision.kind} the release on node ${this.#node}: it is already cancelled`,
        'Run `sluiced history` for the outcome',
      );
    this.#isCancelled = decision.kind === 'cancel';
    this.#decision = decision;
    return probation;
  }
}

export const noProbation = ({ kind }: Decision, node: string) =>
  stateError(
    `Cannot ${kind} a release on node ${node}: no release is on probation`,
    'Run `sluiced status` for the active generation and the change in progress',
  );
