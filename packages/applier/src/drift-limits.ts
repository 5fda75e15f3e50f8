/** The bounds of finding changes by other programs, and of repairing them, each with its unit. They are part of `limits`. */
export const driftLimits = {
  /** More repairs than this within the window are a drift loop with another program: an alarm, and repairs at a slower pace. */
  repairsMax: 5,
  repairsWindowMs: 600_000,
  /** Repairs that are kept for `sluiced history`. */
  repairsKept: 100,
  /** The pause between repairs in a drift loop; short enough that the alarm stays raised while the loop lasts. */
  driftLoopPaceMs: 60_000,

  /**
   * A comparison after an event begins no earlier than this after the last one. Over time comparisons use 2 % of a processor: each is paid
   * for by a pause of this many times its duration. The first ones may run ahead of their pauses: drift is repaired at once, also right
   * after a start, and a program that repeats it raises the alarm of a drift loop (`repairsMax`) before a pause.
   */
  comparePauseMs: 500,
  comparePauseFactor: 50,
  comparisonsAtOnce: 8,
  /** Rules that were not read for this long do not count as healthy; where one reading is slow, for this many pauses between two. */
  unseenMsMax: 30_000,
  unseenPausesMax: 3,
  /**
   * A scan compares the tables without an event once this many times the duration of the last comparison has passed (0.13 %). Where a
   * comparison takes longer than 0.75 s, the maximum applies: drift without an event is found within it at any cost.
   */
  compareAgainFactor: 800,
  compareAgainMsMax: 10 * 60_000,
  /** What a first release put into the table of mode nftables is read back this long after packets meet it. */
  readBackMs: 500,
  /** How long such a comparison may be postponed by changes of the bundle directory, and the longest pause until it begins again. */
  compareLateMsMax: 2 * 60_000,
  compareBegunMsMax: 30_000,
  /**
   * Without events: the pause between two polls, and at least this many times the processor time of a poll (2 %). At 10,000 Services in the
   * legacy store a poll takes some 0.5 s, so removed rules are found within 30 s; at 1,000 within 5 s.
   */
  pollPauseMs: 2_000,
  pollPauseFactor: 50,
  /**
   * How often it is proved that the monitor hears, which takes 0.1 ms; how soon again when it seems not to; and how long it may seem so: it
   * may only wait for the processor.
   */
  hearPauseMs: 1_000,
  hearAgainMs: 250,
  hearLateMsMax: 1_000,
  /** Events are relied on once the monitor has run for this long. */
  monitorTrustMs: 1_000,
  /** How long a new one may take until it listens, and the pause between two looks whether it does. */
  monitorListensMs: 2_000,
  monitorLookMs: 5,
  monitorRestartMs: 1_000,
  monitorRestartMsMax: 10 * 60_000,
  /** Reported lines of a foreign change, and the length of each. */
  changesToldMax: 5,
  changeCharactersMax: 200,
  /** Our own newest processes, whose changes are not drift. */
  ownProcessesKept: 512,
  /** Where the kernel's process ids are not ours: how long after one of our processes began a change is attributed to it. */
  ownChangeToldMs: 60_000,
} as const;
