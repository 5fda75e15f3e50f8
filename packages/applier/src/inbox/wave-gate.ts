import {
  fileDigest,
  isProblem,
  openingSignatureFile,
  readOpening,
  readWaves,
  type Wave,
  waveNamespace,
  type WavesOpening,
} from '@sluice/bundle';
import { notice, type Problem, refusal } from '@sluice/netfilter';
import type { Run } from '../kernel/command.ts';
import { StateError } from '../state/state-error.ts';
import type { Seal } from './files.ts';
import { ReleaseFloor } from './release-floor.ts';
import { loadSigners, whoSigned } from './release-signatures.ts';
import type { Trust } from './trust.ts';
import { WaveMemory } from './wave-memory.ts';

/** A release that this node may not apply yet. */
export interface WaitingRelease {
  /** The wave of this node, from 1. */
  readonly wave: number;
  readonly name: string;
  /** `RELEASE_WAITS`, with why. */
  readonly problem: Problem;
}

/** What an opening says of the wave of this node. */
interface WaveState {
  readonly isOpen: boolean;
  readonly closings: number;
  readonly wasClosed: boolean;
}

interface WaveRules {
  readonly node: string;
  /** The state directory. */
  readonly state: string;
  /** Who may open waves; undefined where signatures are not required. */
  readonly allowedSigners: string | undefined;
}

/** What gates are made of. */
export interface WaveGateDependencies {
  readonly run: Run;
  /** Who may write to `allowedSigners`. */
  readonly trust: Trust;
  /** False for a dry run: what was accepted is not remembered. */
  readonly remember: () => boolean;
}

/**
 * Decides whether the wave of this node is open: packages/bundle/README.md, "Waves". A problem with the opening keeps the wave closed; it
 * never refuses the release, which has its own signatures. A wave that was open stays open for that release, until it is closed by an
 * opening with more closings: withdrawing a key later must not keep a node from repairing its own rules. Nothing closes it for a node that
 * has taken the release.
 */
export class WaveGate {
  readonly #rules: WaveRules;
  readonly #parts: WaveGateDependencies;
  readonly #floor: ReleaseFloor;
  readonly #memory: WaveMemory;

  constructor(rules: WaveRules, parts: WaveGateDependencies) {
    this.#rules = rules;
    this.#parts = parts;
    this.#floor = new ReleaseFloor(rules.state);
    this.#memory = new WaveMemory(rules.state);
  }

  /**
   * @param seal of an accepted release, so that `waves.yaml` is signed
   * @returns undefined when the release may be applied, or why it waits; problems where the waves are not valid for this node
   */
  async check(seal: Seal | undefined): Promise<WaitingRelease | { readonly problems: readonly Problem[] } | undefined> {
    if (seal?.waves === undefined) return undefined;
    const waves = readWaves(seal.waves);
    if (isProblem(waves)) return { problems: [waves] };
    const index = waves.findIndex(({ nodes }) => nodes.includes(this.#rules.node));
    const wave = waves[index];
    if (wave === undefined) return { problems: [inNoWave(this.#rules.node)] };
    const digest = fileDigest(seal.sums);
    const isRequired = this.#rules.allowedSigners !== undefined;
    const known = isRequired ? this.#memory.of(digest) : { closings: 0, taken: false };
    if (known.taken) return undefined;
    const opening = await this.#opening(seal, digest, known.closings);
    const { open, closings = 0 } = typeof opening === 'string' ? { open: 0, closings: known.closings } : opening;
    const wasClosed = closings > known.closings;
    const isOpen = open > index || (isRequired && !wasClosed && this.#floor.isOpened(digest));
    const problems = isRequired ? this.#remember(digest, { isOpen, closings, wasClosed }) : undefined;
    if (problems || isOpen) return problems;
    const some = open === 0 ? 'none is open' : `${open} of ${waves.length} are open`;
    const why =
      typeof opening === 'string' ? opening : `${some}${closings > 0 ? ', after an operator closed waves' : ''}`;
    return waiting(wave, index + 1, why);
  }

  /** The opening of the release of this digest, or why none counts. @param least closings: it must not be from before one */
  async #opening(seal: Seal, digest: string, least: number): Promise<WavesOpening | string> {
    if (seal.opening === undefined) return least > 0 ? 'waves-open.yaml is missing' : { release: digest, open: 0 };
    const unsigned = await this.#unsigned(seal);
    if (unsigned !== undefined) return `waves-open.yaml is ignored: ${unsigned}`;
    const opening = readOpening(seal.opening);
    if (isProblem(opening)) return opening.message;
    if (opening.release !== digest) return 'waves-open.yaml is for another release';
    return (opening.closings ?? 0) >= least ? opening : 'waves-open.yaml is from before an operator closed waves';
  }

  async #unsigned({ opening = '', openingSignature }: Seal): Promise<string | undefined> {
    const { allowedSigners, state } = this.#rules;
    if (allowedSigners === undefined) return undefined;
    if (openingSignature === undefined) return 'it has no signature';
    const signers = loadSigners(allowedSigners, this.#parts.trust);
    if ('problems' in signers) return signers.problems[0]?.message ?? 'allowed_signers cannot be used';
    const signatures = new Map([[openingSignatureFile, openingSignature]]);
    const checker = { run: this.#parts.run, state };
    const signed = await whoSigned(opening, signatures, signers, checker, waveNamespace);
    if ('problems' in signed) return signed.problems[0]?.message ?? 'its signature cannot be read';
    return signed.principals.length > 0 ? undefined : signed.passedOver.join('; ');
  }

  /** A closing first: a crash in between leaves the wave closed, and the next look opens it where it is open. */
  #remember(
    digest: string,
    { isOpen, closings, wasClosed }: WaveState,
  ): undefined | { readonly problems: readonly Problem[] } {
    try {
      if (!this.#parts.remember()) return undefined;
      if (wasClosed) {
        this.#floor.open(digest, false);
        this.#memory.write(digest, { closings, taken: false });
      }
      if (isOpen) this.#floor.open(digest);
      return undefined;
    } catch (error) {
      if (!(error instanceof StateError)) throw error;
      const message = `Cannot accept the release: ${error.message}`;
      return { problems: [refusal(error.code, message, error.hint)] };
    }
  }
}

function waiting({ name }: Wave, wave: number, why: string): WaitingRelease {
  return {
    wave,
    name,
    problem: notice(
      'RELEASE_WAITS',
      `Cannot apply the release yet: this node is in wave ${wave} (${name}), and ${why}`,
      'Open the wave with `sluice promote`; on this node alone: `sluiced apply DIR --ignore-waves`',
    ),
  };
}

const inNoWave = (node: string): Problem =>
  refusal(
    'WAVES_INVALID',
    `Cannot accept the release: no wave contains node ${node}`,
    'Create the release again with `sluice release --wave FILE`, which names every node',
  );
