import { type FailureKind, isAnswer, KernelError, RehearsalError } from '../ports/failure.ts';
import type { Journal } from '../ports/journal.ts';
import type { Kernel, Step } from '../ports/kernel.ts';

/** For tests only: the simulated crash of a process. */
export class Crash extends Error {
  override readonly name = 'Crash';
}

/** Whether the process crashes before or after the effect of a call. */
export type CrashMoment = 'before' | 'after';

/** Counts the calls that change the kernel or the disk, and crashes the process at one of them. */
export class Countdown {
  calls = 0;
  #dead = false;
  readonly #at: number;
  readonly #fault: CrashMoment;

  constructor(at: number, fault: CrashMoment) {
    this.#at = at;
    this.#fault = fault;
  }

  /** The process ends between two calls. */
  end(): void {
    this.#dead = true;
  }

  /** Does the work unless the process has crashed, or crashes now. A crashed process does nothing more, even if it catches the error. */
  async through<T>(work: () => Promise<T>): Promise<T> {
    if (this.#dead) throw new Crash('the process has ended');
    const now = this.calls++ === this.#at;
    if (now) this.#dead = true;
    if (now && this.#fault === 'before') throw new Crash('the process ends before the call');
    const result = await work();
    if (now) throw new Crash('the process ends after the call');
    return result;
  }
}

/** A kernel at whose calls a process crashes. */
export function mortalKernel(kernel: Kernel, countdown: Countdown): Kernel {
  const switchStates = kernel.switch;
  return {
    slowWithManyChains: kernel.slowWithManyChains,
    knowsBpf: kernel.knowsBpf,
    observe: (families, known) => kernel.observe(families, known),
    observeChains: (family, chains) => kernel.observeChains(family, chains),
    changeCount: async () => kernel.changeCount?.(),
    apply: (step) => countdown.through(() => kernel.apply(step)),
    rehearse: (state) => kernel.rehearse(state),
    readSysctl: (key) => kernel.readSysctl(key),
    readHashSize: () => kernel.readHashSize(),
    proxyTraces: () => kernel.proxyTraces(),
    forgetFlows: (flows, found) => countdown.through(() => kernel.forgetFlows(flows, found)),
    ...(kernel.ipvs ? { ipvs: kernel.ipvs } : {}),
    ...(kernel.nft ? { nft: kernel.nft } : {}),
    switch: switchStates && {
      ...(switchStates.isOnlyNft ? { isOnlyNft: true } : {}),
      look: () => switchStates.look(),
      make: (...asked) => countdown.through(() => switchStates.make(...asked)),
      on: (seconds) => countdown.through(() => switchStates.on(seconds)),
      off: (table) => countdown.through(() => switchStates.off(table)),
      remove: () => countdown.through(() => switchStates.remove()),
    },
  };
}

/** A journal at whose calls a process crashes. */
export function mortalJournal(journal: Journal, countdown: Countdown): Journal {
  return {
    get active() {
      return journal.active;
    },
    get open() {
      return journal.open;
    },
    get halted() {
      return journal.halted;
    },
    get originals() {
      return journal.originals;
    },
    get originalTimeouts() {
      return journal.originalTimeouts;
    },
    get draining() {
      return journal.draining;
    },
    get notBeforeMs() {
      return journal.notBeforeMs;
    },
    get damaged() {
      return journal.damaged;
    },
    get lost() {
      return journal.lost;
    },
    storedGenerations: () => journal.storedGenerations(),
    rescue: (target, because) => countdown.through(() => journal.rescue(target, because)),
    failuresSince: (sinceMs) => journal.failuresSince(sinceMs),
    quarantined: (version) => journal.quarantined(version),
    generation: (number, revision) => journal.generation(number, revision),
    recognised: (state, because) => countdown.through(() => journal.recognised(state, because)),
    adopt: (state) => countdown.through(() => journal.adopt(state)),
    offer: (update) => countdown.through(() => journal.offer(update)),
    accept: () => countdown.through(() => journal.accept()),
    begin: (intent) => countdown.through(() => journal.begin(intent)),
    get quarantinedServices() {
      return journal.quarantinedServices;
    },
    lift: (quarantined) => countdown.through(() => journal.lift(quarantined)),
    commit: (...how) => countdown.through(() => journal.commit(...how)),
    tidy: () => journal.tidy(),
    finish: () => countdown.through(() => journal.finish()),
    fallBack: (target, because) => countdown.through(() => journal.fallBack(target, because)),
    openFlows: () => journal.openFlows(),
    abandon: (because, fault) => countdown.through(() => journal.abandon(because, fault)),
    countRecovery: () => countdown.through(() => journal.countRecovery()),
    outlived: () => countdown.through(() => journal.outlived()),
    halt: (because) => countdown.through(() => journal.halt(because)),
    choose: (target) => countdown.through(() => journal.choose(target)),
    chooseUnwritten: (target, stored) => journal.chooseUnwritten(target, stored),
    get adoption() {
      return journal.adoption;
    },
    keepAdoption: (adoption) => countdown.through(() => journal.keepAdoption(adoption)),
    keepReplaced: (state) => countdown.through(() => journal.keepReplaced(state)),
    keepDraining: (draining) => countdown.through(() => journal.keepDraining(draining)),
    forget: () => countdown.through(() => journal.forget()),
  };
}

/** Which applied steps fail, counted from 0. `lies`: the kernel takes the step, although the tool reports a failure. */
export interface StepFaults {
  readonly fails: (index: number) => boolean;
  readonly lies: boolean;
}

/** A kernel that refuses some steps. */
export function failingKernel(kernel: Kernel, faults: StepFaults): Kernel {
  let index = 0;
  const apply = async (step: Step): Promise<void> => {
    const fails = faults.fails(index++);
    if (!fails || faults.lies) await kernel.apply(step);
    if (fails) throw new Error('the tool was killed');
  };
  const safe = mortalKernel(kernel, new Countdown(-1, 'before'));
  return { ...safe, apply };
}

/** A kernel that refuses rules that contain a text. */
export function refusingKernel(kernel: Kernel, refused: string): Kernel {
  const apply = async (step: Step): Promise<void> => {
    if ('text' in step && step.text.includes(refused)) throw new Error(`no rule with ${refused}`);
    await kernel.apply(step);
  };
  return { ...mortalKernel(kernel, new Countdown(-1, 'before')), apply };
}

/** Whether a call of the kernel fails, counted from 0, and how. */
export type Trouble = (index: number, call: string) => FailureKind | undefined;

/** A kernel whose tools fail at some calls, also at those that only read, before any effect. */
export function troubledKernel(kernel: Kernel, trouble: Trouble): Kernel {
  let index = 0;
  const through = async <T>(call: string, work: () => Promise<T>): Promise<T> => {
    const kind = trouble(index++, call);
    if (kind !== undefined) throw new KernelError(call, `it is ${kind}`, kind);
    return work();
  };
  const { nft, switch: its } = kernel;
  return {
    ...mortalKernel(kernel, new Countdown(-1, 'before')),
    observe: (...asked) => through('observe', () => kernel.observe(...asked)),
    observeChains: (...asked) => through('observeChains', () => kernel.observeChains(...asked)),
    apply: (step) => through(`apply ${step.kind}`, () => kernel.apply(step)),
    rehearse: (state) =>
      through('rehearse', () => kernel.rehearse(state)).catch((error: unknown) => {
        // As rehearsals report it.
        throw error instanceof KernelError && !isAnswer(error.kind) ? new RehearsalError(error.message, '') : error;
      }),
    proxyTraces: () => through('proxyTraces', () => kernel.proxyTraces()),
    ...(nft
      ? {
          nft: {
            lack: (again) => nft.lack(again),
            observe: (interrupt) => through('nft observe', () => nft.observe(interrupt)),
            exists: () => through('nft exists', () => nft.exists()),
          },
        }
      : {}),
    switch: its && {
      ...(its.isOnlyNft ? { isOnlyNft: true } : {}),
      look: () => through('look', () => its.look()),
      make: (...asked) => through('make', () => its.make(...asked)),
      on: (seconds) => through('on', () => its.on(seconds)),
      off: (table) => through('off', () => its.off(table)),
      remove: () => through('remove', () => its.remove()),
    },
  };
}
