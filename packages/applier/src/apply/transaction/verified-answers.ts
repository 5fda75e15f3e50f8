import { refusal } from '@sluice/netfilter';
import { limits } from '../../limits.ts';
import { messageOf } from '../../message.ts';
import type { EarlierRules } from '../plan/ownership.ts';
import { StillDiffers } from '../../ports/failure.ts';
import type { Generation } from '../../ports/journal.ts';
import type { Ports } from '../../ports/ports.ts';
import type { ProbeResult } from '../../ports/probes.ts';
import type { Refusal } from '../../ports/refusal.ts';

/** Keeps the rules in the kernel equal to the active generation. `DriftRepair` implements it. */
export interface RulesKeeper {
  /**
   * Whether the kernel holds what leads packets to the active generation. Cheap: it reads few chains, and says nothing about the others.
   * True where there is no generation of ours.
   */
  looksRight(): Promise<boolean>;
  /**
   * Compares all of the kernel with the active generation, and repairs it.
   * @returns the number of steps; 0 if nothing differed, or there is no generation
   * @throws StillDiffers when another program undoes the repair at once
   */
  repairAll(): Promise<number>;
  /** Reads what serves Services on a node without a generation of its own. `cut`: also where the rules seen before are gone. */
  earlier(): Promise<EarlierRules>;
  /** Whether a program runs that puts such rules back by itself. */
  readonly hasProxy: boolean;
}

/** The rules that packets of probes met, all the time. */
type Rules =
  | { readonly kind: 'generation'; readonly generation: Generation }
  /** Those before Sluice: of a kube-proxy, or none. Nothing of them is ours to repair. */
  | { readonly kind: 'earlier' }
  /** Another program had removed them, and nothing puts them back. */
  | { readonly kind: 'unknown'; readonly why: string };

/**
 * The answers of the probes, and the rules that they are about. A decision that compares with answers takes this type, which nothing else
 * makes: probes that fail because another program has flushed the rules must not excuse a release that fails them, too.
 *
 * The rules are looked at before the probes, and repaired if they are not right. Where all probes pass, nothing is excused, and that is enough.
 * Where one fails, all rules are compared after the probes: what differs is repaired, and the probes run again. So do they where another
 * program changed the tables meanwhile and the kernel tells (`Kernel.changeCount`): it may have put its own flush right.
 *
 * On a node without a generation of its own the rules before are those of a kube-proxy, or none. They must lead packets before the probes and
 * after them. Where they do not, a kube-proxy that runs is waited for; without one nothing is excused, for nothing is known. A node that never
 * had any rules excuses: to go back would leave it without all Services, for a probe that nothing has ever let pass.
 */
export class VerifiedAnswers {
  readonly answers: readonly ProbeResult[];
  readonly rules: Rules;
  /** Whether the rules changed before or meanwhile: what was decided before is out of date. */
  readonly isLater: boolean;

  private constructor(answers: readonly ProbeResult[], rules: Rules, isLater: boolean) {
    this.answers = answers;
    this.rules = rules;
    this.isLater = isLater;
  }

  /** The answers to compare with: a probe of which nothing is known excuses nothing, like one that passes. */
  get before(): readonly ProbeResult[] {
    const { rules, answers } = this;
    return rules.kind === 'unknown' ? answers.map((one) => ({ ...one, healthy: true, seen: rules.why })) : answers;
  }

  /**
   * Runs the probes until it is known which rules their answers are about, `limits.baselineTriesMax` times at most.
   * @returns why not, without blame for any release: another program changes the rules again and again
   * @throws KernelError when the kernel cannot be read or repaired
   */
  static async take(
    keeper: RulesKeeper,
    { journal, kernel, probes, report }: Pick<Ports, 'journal' | 'kernel' | 'probes' | 'report'>,
  ): Promise<VerifiedAnswers | Refusal> {
    const { active } = journal;
    const rules: Rules = active && active.number > 0 ? { kind: 'generation', generation: active } : { kind: 'earlier' };
    if (probes.policies.length === 0) return new VerifiedAnswers([], rules, false);
    const earlier = async (): Promise<EarlierRules> => (rules.kind === 'earlier' ? keeper.earlier() : 'serving');
    let steps = 0;
    let answers: readonly ProbeResult[] = [];
    let why = 'the rules were not as loaded';
    let isCut = false;
    try {
      if (!(await keeper.looksRight())) steps += await keeper.repairAll();
      for (let tries = 1; tries <= limits.baselineTriesMax; tries++) {
        const rulesBefore = await earlier();
        const before = await kernel.changeCount?.();
        answers = await probes.untilVerdict();
        const isLater = steps > 0 || tries > 1;
        if (answers.every(({ healthy }) => healthy)) return new VerifiedAnswers(answers, rules, isLater);
        const isSame = (await kernel.changeCount?.()) === before;
        const repaired = await keeper.repairAll();
        steps += repaired;
        const rulesAfter = await earlier();
        isCut = rulesAfter === 'cut' || rulesAfter !== rulesBefore;
        // Programs that write rules of their own all the time must not keep a release out: the comparison is what counts in the end.
        const isLast = tries === limits.baselineTriesMax;
        if (repaired === 0 && !isCut && (isSame || isLast)) return new VerifiedAnswers(answers, rules, isLater);
        report('probes-again', { steps: repaired, tries });
      }
    } catch (error) {
      if (!(error instanceof StillDiffers)) throw error;
      why = messageOf(error);
      isCut = false;
    }
    if (!isCut) return notNow(why);
    why = 'the rules that served Services before Sluice were removed';
    // What puts them back is waited for: a release that goes in before that may be blamed for what failed with them, too.
    return keeper.hasProxy ? notNow(why) : new VerifiedAnswers(answers, { kind: 'unknown', why }, true);
  }
}

function notNow(why: string): Refusal {
  return {
    problems: [
      refusal(
        'NODE_RULES_UNSTEADY',
        `Cannot learn which probes pass before the release: another program changes the rules while they run: ${why}`,
        'Nothing of the release was touched; it is tried again by itself. Stop the program that changes the rules, or make it leave them alone; the log has the repairs before this release',
      ),
    ],
  };
}
