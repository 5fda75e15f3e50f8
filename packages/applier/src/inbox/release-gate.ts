import {
  type Accepted,
  endpointsNamespace,
  expired,
  fileDigest,
  type Floor,
  isProblem,
  type Problem,
  readRelease,
  refusedRelease,
  unreachable,
  unsigned,
} from '@sluice/bundle';
import type { Run } from '../kernel/run.ts';
import { StateError } from '../store/state-error.ts';
import type { Seal, Tree } from './files.ts';
import { ReleaseFloor } from './release-floor.ts';
import { loadSigners, whoSigned } from './release-signatures.ts';
import type { Trust } from './trust.ts';

/** Who signed a release, and whether that is good for endpoints alone. */
interface Signers {
  readonly principals: readonly string[];
  /** Why it is not good for more. */
  readonly onlyEndpoints?: Problem;
}

/** What the node's config says about releases. */
export interface GateRules {
  readonly node: string;
  readonly cluster?: string | undefined;
  /** The state directory. */
  readonly state: string;
  readonly allowedSigners: string;
  readonly threshold: number;
  readonly floor: number;
}

export interface GateParts {
  readonly run: Run;
  /** The time of day. */
  readonly nowMs: () => number;
  /** Who may write `allowedSigners`. */
  readonly trust: Trust;
  /** False where nothing may be changed: what is accepted is not remembered. */
  readonly remember: () => boolean;
}

export type Verdict =
  | { readonly kind: 'accepted'; readonly release: Accepted; readonly alarms: readonly Problem[] }
  | { readonly kind: 'refused'; readonly problems: readonly Problem[] };

/**
 * Lets in releases that are signed, for this node, and not older than what it has had: packages/bundle/README.md, "What a node
 * accepts". Of a release that was accepted before, the digest decides: a rotated key or a dead clock must not make what runs unusable.
 */
export class ReleaseGate {
  readonly #rules: GateRules;
  readonly #parts: GateParts;
  readonly #floor: ReleaseFloor;

  constructor(rules: GateRules, parts: GateParts) {
    this.#rules = rules;
    this.#parts = parts;
    this.#floor = new ReleaseFloor(rules.state);
  }

  /** @param tree one whose files are those that its seal names */
  async check({ seal }: Tree): Promise<Verdict> {
    if (seal === undefined) return refused(noRelease);
    const digest = fileDigest(seal.sums);
    const signers = await this.#signers(seal);
    // Read after the wait, so that what another process accepted meanwhile counts.
    const accepted = this.#floor.read();
    if (accepted && 'problem' in accepted) return refused(accepted.problem);
    const known = [accepted?.release, accepted?.update].find((one) => one?.digest === digest);
    if (known) return this.#again(known, signers);
    if ('problems' in signers) return { kind: 'refused', problems: signers.problems };
    return this.#fresh(seal, digest, accepted, signers);
  }

  /** Who signed, when they are enough; for an update of endpoints one key with that role is. */
  async #signers(seal: Seal): Promise<Signers | { problems: readonly Problem[] }> {
    const { allowedSigners, threshold } = this.#rules;
    const signers = loadSigners(allowedSigners, this.#parts.trust);
    if ('problems' in signers) return signers;
    const never = unreachable(allowedSigners, signers, threshold);
    if (never) return { problems: [never] };
    const asking = { run: this.#parts.run, state: this.#rules.state };
    const signed = await whoSigned(seal.sums, seal.signatures, signers, asking);
    if ('problems' in signed) return signed;
    const tooFew = unsigned(signed, threshold);
    if (!tooFew) return signed;
    const updaters = await whoSigned(seal.sums, seal.signatures, signers, asking, endpointsNamespace);
    if ('problems' in updaters) return updaters;
    const { principals } = updaters;
    return principals.length === 0 ? { problems: [tooFew] } : { principals, onlyEndpoints: tooFew };
  }

  /** The release that was accepted: it stays so, and what has become of its signatures is told. */
  #again(accepted: Accepted, signers: { problems: readonly Problem[] } | Signers): Verdict {
    if (accepted.onlyEndpoints && !('problems' in signers) && !signers.onlyEndpoints) {
      const { onlyEndpoints: _before, ...rest } = accepted;
      return this.#accept({ ...rest, signers: signers.principals });
    }
    const lost = 'problems' in signers ? signers.problems : signers.onlyEndpoints ? [signers.onlyEndpoints] : [];
    const isEnough = accepted.onlyEndpoints && !('problems' in signers);
    const changed = isEnough ? [] : lost.map(({ message }) => signersChanged(accepted.serial, message));
    return { kind: 'accepted', release: accepted, alarms: [...this.#expired(accepted), ...changed] };
  }

  #fresh(seal: Seal, digest: string, accepted: Floor | undefined, signers: Signers): Verdict {
    const release = readRelease(seal.release ?? '');
    if (isProblem(release)) return refused(release);
    const { node, cluster, floor } = this.#rules;
    const problem = refusedRelease(release, digest, {
      node,
      cluster,
      floor,
      accepted,
      onlyEndpoints: signers.onlyEndpoints !== undefined,
    });
    if (problem) return refused(problem);
    const { serial, revision, expires } = release;
    return this.#accept({
      cluster: release.cluster,
      serial,
      ...(revision === undefined ? {} : { revision }),
      digest,
      signers: signers.principals,
      ...(signers.onlyEndpoints ? { onlyEndpoints: true } : {}),
      ...(expires === undefined ? {} : { expires }),
    });
  }

  #accept(fresh: Accepted): Verdict {
    const unwritable = this.#parts.remember() ? this.#remember(fresh) : undefined;
    return unwritable ? refused(unwritable) : { kind: 'accepted', release: fresh, alarms: this.#expired(fresh) };
  }

  /** Before anything is done with the release: a node that forgets what it has accepted can be led back. */
  #remember(fresh: Accepted): Problem | undefined {
    try {
      this.#floor.write(fresh);
      return undefined;
    } catch (error) {
      if (!(error instanceof StateError)) throw error;
      return {
        code: error.code,
        level: 'error',
        message: `Cannot take the release: ${error.message}`,
        hint: error.hint,
      };
    }
  }

  #expired(release: Accepted): readonly Problem[] {
    const now = `${new Date(this.#parts.nowMs()).toISOString().slice(0, 19)}Z`;
    const problem = expired(release, now);
    return problem === undefined ? [] : [problem];
  }
}

function refused(problem: Problem): Verdict {
  return { kind: 'refused', problems: [problem] };
}

const noRelease: Problem = {
  code: 'RELEASE_UNSIGNED',
  level: 'error',
  message: 'Cannot trust the bundle: it is no release, so nobody can have signed it',
  hint: 'Make and sign one (`sluice release`, `sluice sign`), or write `signatures: {policy: none}` into sluiced.yaml to take what is not signed',
};

function signersChanged(serial: number, why: string): Problem {
  return {
    code: 'RELEASE_SIGNERS_CHANGED',
    level: 'warning',
    message: `Cannot verify release ${serial} any more, which this node accepted and keeps: ${why}`,
    hint: 'If a key was withdrawn, ship a release that others have signed; if it was not, see allowed_signers and the clock of the node',
  };
}
