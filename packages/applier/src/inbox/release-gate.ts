import {
  type Accepted,
  endpointsNamespace,
  expired,
  fileDigest,
  type Floor,
  isProblem,
  readRelease,
  refusedRelease,
  unreachable,
  unsigned,
} from '@sluice/bundle';
import { type Problem, refusal, warning } from '@sluice/netfilter';
import { StateError } from '../state/state-error.ts';
import type { Seal, Tree } from './files.ts';
import { ReleaseFloor } from './release-floor.ts';
import { loadSigners, whoSigned } from './release-signatures.ts';
import type { WaveGateDependencies } from './wave-gate.ts';

/** The signers of a release, and whether they may sign endpoints only. */
interface Signers {
  readonly principals: readonly string[];
  /** Why they may not sign more. */
  readonly onlyEndpoints?: Problem;
}

/** The node's config for releases. */
export interface GateRules {
  readonly node: string;
  readonly cluster?: string | undefined;
  /** The state directory. */
  readonly state: string;
  readonly allowedSigners: string;
  readonly threshold: number;
  readonly floor: number;
}

interface ReleaseGateDependencies extends WaveGateDependencies {
  /** The time of day. */
  readonly nowMs: () => number;
}

type GateVerdict =
  | { readonly kind: 'accepted'; readonly release: Accepted; readonly alarms: readonly Problem[] }
  | { readonly kind: 'refused'; readonly problems: readonly Problem[] };

/**
 * Accepts releases that are signed, for this node, and not older than those it has had: packages/bundle/README.md, "What a node accepts". A
 * release that was accepted before is recognised by its digest: a rotated key or a wrong clock must not make the active release unusable.
 */
export class ReleaseGate {
  readonly #rules: GateRules;
  readonly #parts: ReleaseGateDependencies;
  readonly #floor: ReleaseFloor;

  constructor(rules: GateRules, parts: ReleaseGateDependencies) {
    this.#rules = rules;
    this.#parts = parts;
    this.#floor = new ReleaseFloor(rules.state);
  }

  /** @param tree whose files match its seal */
  async check({ seal }: Pick<Tree, 'seal'>): Promise<GateVerdict> {
    if (seal === undefined) return refused(noRelease);
    const digest = fileDigest(seal.sums);
    const signers = await this.#signers(seal);
    // Read after the wait, so that releases accepted by another process meanwhile count.
    const accepted = this.#floor.read();
    if (accepted && 'problem' in accepted) return refused(accepted.problem);
    const known = [accepted?.release, accepted?.update].find((one) => one?.digest === digest);
    if (known) return this.#again(known, signers);
    if ('problems' in signers) return { kind: 'refused', problems: signers.problems };
    return this.#acceptNew(seal, digest, accepted, signers);
  }

  /** The signers, when they are enough; for an endpoint update one endpoint key is. */
  async #signers(seal: Seal): Promise<Signers | { problems: readonly Problem[] }> {
    const { allowedSigners, threshold } = this.#rules;
    const signers = loadSigners(allowedSigners, this.#parts.trust);
    if ('problems' in signers) return signers;
    const never = unreachable(allowedSigners, signers, threshold);
    if (never) return { problems: [never] };
    const checker = { run: this.#parts.run, state: this.#rules.state };
    const signed = await whoSigned(seal.sums, seal.signatures, signers, checker);
    if ('problems' in signed) return signed;
    const tooFew = unsigned(signed, threshold);
    if (!tooFew) return signed;
    const updaters = await whoSigned(seal.sums, seal.signatures, signers, checker, endpointsNamespace);
    if ('problems' in updaters) return updaters;
    const { principals } = updaters;
    return principals.length === 0 ? { problems: [tooFew] } : { principals, onlyEndpoints: tooFew };
  }

  /** A release that was accepted before stays accepted; problems with its signatures become alarms. */
  #again(accepted: Accepted, signers: { problems: readonly Problem[] } | Signers): GateVerdict {
    if (accepted.onlyEndpoints && !('problems' in signers) && !signers.onlyEndpoints) {
      const { onlyEndpoints: _before, ...rest } = accepted;
      return this.#accept({ ...rest, signers: signers.principals });
    }
    const lost = 'problems' in signers ? signers.problems : signers.onlyEndpoints ? [signers.onlyEndpoints] : [];
    const isEnough = accepted.onlyEndpoints && !('problems' in signers);
    const changed = isEnough ? [] : lost.map(({ message }) => signersChanged(accepted.serial, message));
    return { kind: 'accepted', release: accepted, alarms: [...this.#expired(accepted), ...changed] };
  }

  #acceptNew(seal: Seal, digest: string, accepted: Floor | undefined, signers: Signers): GateVerdict {
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

  #accept(release: Accepted): GateVerdict {
    const unwritable = this.#parts.remember() ? this.#remember(release) : undefined;
    return unwritable ? refused(unwritable) : { kind: 'accepted', release: release, alarms: this.#expired(release) };
  }

  /** Before anything is done with the release: a node that forgets what it accepted can be rolled back to an old release by an attacker. */
  #remember(release: Accepted): Problem | undefined {
    try {
      this.#floor.write(release);
      return undefined;
    } catch (error) {
      if (!(error instanceof StateError)) throw error;
      return refusal(error.code, `Cannot accept the release: ${error.message}`, error.hint);
    }
  }

  #expired(release: Accepted): readonly Problem[] {
    const now = `${new Date(this.#parts.nowMs()).toISOString().slice(0, 19)}Z`;
    const problem = expired(release, now);
    return problem === undefined ? [] : [problem];
  }
}

const refused = (problem: Problem): GateVerdict => ({ kind: 'refused', problems: [problem] });

const noRelease = refusal(
  'RELEASE_UNSIGNED',
  'Cannot trust the bundle: it is not a release, so it has no signature',
  'Create and sign one (`sluice release`, `sluice sign`), or set `signatures: {policy: none}` in sluiced.yaml to accept unsigned bundles',
);

function signersChanged(serial: number, why: string): Problem {
  return warning(
    'RELEASE_SIGNERS_CHANGED',
    `Cannot verify the signatures of release ${serial} any more (it stays accepted): ${why}`,
    'If a key was withdrawn, ship a release with other signatures; otherwise check allowed_signers and the clock of the node',
  );
}
