import { limits } from '../limits.ts';
import { messageOf } from '../message.ts';
import { StillDiffers } from '../ports/failure.ts';
import type { Generation } from '../ports/journal.ts';
import type { Ports } from '../ports/ports.ts';
import type { ProbeResult } from '../ports/probes.ts';
import type { Refusal } from '../ports/refusal.ts';

/** Keeps the rules in the kernel equal to the active generation. `DriftRepair` implements it. */
export interface RulesKeeper {
  /**
   * Whether the kernel holds what leads packets to the active generation. Cheap: it reads few chains, and says nothing about the others.
   * True where there is no generation of ours.
   */
  looksRight(): Promise<boolean>;
  /**
   * Compares all of the kernel with the active generation, and repairs it.
   * @returns the number of steps; 0 if nothing differed
   * @throws StillDiffers when another program undoes the repair at once
   */
  repairAll(): Promise<number>;
}

/**
 * The answers of the probes on the rules of one generation. A decision that compares with answers takes this type, which nothing else makes:
 * probes that fail because another program has flushed the rules must not excuse a release that fails them, too.
 *
 * The rules are looked at before the probes, and repaired if they are not right. Where all probes pass, nothing is excused, and that is enough.
 * Where one fails, all rules are compared after the probes: what differs is repaired, and the probes run again. So do they where another
 * program changed the tables meanwhile and the kernel tells (`Kernel.changeCount`): it may have put its own flush right.
 */
export class VerifiedAnswers {
  readonly answers: readonly ProbeResult[];
  /** The active generation at that time; undefined: none, or that of the rules before Sluice, with which nothing is compared. */
  readonly generation: Generation | undefined;
  /** Whether the kernel was repaired: what was decided before is out of date. */
  readonly hasRepaired: boolean;

  private constructor(answers: readonly ProbeResult[], generation: Generation | undefined, hasRepaired: boolean) {
    this.answers = answers;
    this.generation = generation;
    this.hasRepaired = hasRepaired;
  }

  /**
   * Runs the probes until their answers are known to be about the active generation, `limits.baselineTriesMax` times at most.
   * @returns why not, without blame for any release: another program changes the rules again and again
   * @throws KernelError when the kernel cannot be read or repaired
   */
  static async take(
    keeper: RulesKeeper,
    { journal, kernel, probes, report }: Pick<Ports, 'journal' | 'kernel' | 'probes' | 'report'>,
  ): Promise<VerifiedAnswers | Refusal> {
    const { active } = journal;
    const generation = active?.number === 0 ? undefined : active;
    const has = (answers: readonly ProbeResult[], steps: number): VerifiedAnswers =>
      new VerifiedAnswers(answers, generation, steps > 0);
    if (probes.policies.length === 0) return has([], 0);
    if (!generation) return has(await probes.untilVerdict(), 0);
    let steps = 0;
    let why = 'the rules were not as loaded';
    try {
      if (!(await keeper.looksRight())) steps += await keeper.repairAll();
      for (let tries = 1; tries <= limits.baselineTriesMax; tries++) {
        const before = await kernel.changeCount?.();
        const answers = await probes.untilVerdict();
        if (answers.every(({ healthy }) => healthy)) return has(answers, steps);
        const isSame = (await kernel.changeCount?.()) === before;
        const repaired = await keeper.repairAll();
        steps += repaired;
        // Programs that write rules of their own all the time must not keep a release out: the comparison is what counts in the end.
        if (repaired === 0 && (isSame || tries === limits.baselineTriesMax)) return has(answers, steps);
        report('probes-again', { steps: repaired, tries });
      }
    } catch (error) {
      if (!(error instanceof StillDiffers)) throw error;
      why = messageOf(error);
    }
    return notNow(why);
  }
}

function notNow(why: string): Refusal {
  return {
    problems: [
      {
        code: 'NODE_RULES_UNSTEADY',
        level: 'error',
        message: `Cannot learn which probes pass before the release: another program changes the rules while they run: ${why}`,
        hint: 'Nothing of the release was touched; it is tried again by itself. Stop the program that changes the rules, or make it leave them alone; the log has the repairs before this release',
      },
    ],
  };
}
