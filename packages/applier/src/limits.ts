import { bundleLimits } from '@sluice/bundle';

/** Every bound in the applier, with its unit. A number elsewhere is a mistake. */
export const limits = {
  /** packages/bundle/README.md, "Limits". */
  fileBytesMax: bundleLimits.fileBytesMax,
  bundleBytesMax: bundleLimits.treeBytesMax,
  bundleFilesMax: bundleLimits.filesMax,
  bundleDepthMax: 8,
  /** Larger files are held in memory as they are. */
  packedBytesMax: 1024 * 1024,
  /** Of an answer of one line from git. */
  gitAnswerBytesMax: 64 * 1024,
  /** Of what git says of one object beside its bytes. */
  gitHeaderBytesMax: 256,
  /** Of the list of a tree: all files that a bundle may have, with 250 bytes each. */
  gitListBytesMax: bundleLimits.filesMax * 250,
  /** Files and folders of a repository: all files of a bundle as loose objects, and as much beside them. */
  gitEntriesMax: 2 * bundleLimits.filesMax,
  /** Objects of at most so many bytes are asked for at once; a larger one alone. */
  gitBatchBytesMax: 16 * 1024 * 1024,

  /** So often is asked for what cannot be read, so far apart: a bus that is reset, or files and memory that others give back, takes less. */
  readAttemptsMax: 4,
  readPauseMs: 200,

  /** How long one run of a tool may take. 230,000 rules need 3 to 9 seconds on iptables 1.8.9. */
  commandTimeoutMs: 60_000,
  /** Between asking a tool to end and ending it. */
  commandKillDelayMs: 2_000,
  /** What `-w` gets: how long a tool waits for the xtables lock. */
  xtablesLockSeconds: 5,
  /** A legacy tool that did not get the lock (exit code 4) is asked again this often. */
  xtablesLockAttemptsMax: 3,
  /** One signature; OpenSSH needs 5 ms. */
  verifyTimeoutMs: 10_000,
  commandOutputBytesMax: 256 * 1024 * 1024,

  /**
   * iptables-nft needs time quadratic in the chains of one payload: 60,000 in one did not end in 430 s. The first apply of 10,000
   * Services with 5 endpoints (60,003 chains, iptables 1.8.9, kernel 6.18), planned and with a process for each step:
   *
   * | chains per payload | 100 | 200 | 500 | 1,000 |
   * |---|---|---|---|---|
   * | all steps | 10.7 s | 6.6 s | 4.6 s | 4.0 to 5.1 s |
   * | processes | 603 | 303 | 123 | 63 |
   * | the same text in one process, as a rehearsal loads it | 3.5 s | 3.1 s | 3.1 s | 3.5 s |
   *
   * Below, processes and planning cost most; above, the square begins.
   */
  chainsPerPayloadMax: 500,
  /**
   * Up to so many changed chains are read back one by one; beyond that the whole table is. An endpoint of layout tree changes about ten:
   * 5 ms each, where the table of 1,000 Services takes 160 ms and that of 10,000 ten times as long.
   */
  chainsReadSinglyMax: 32,
  /** So many tools read at the same time. */
  readersMax: 4,

  /** Between `sluiced` and the unit that rehearses: how long one rehearsal may take, from the connection to the answer. RuntimeMaxSec= of the unit is as long. */
  rehearsalMs: 90_000,
  /** Neither side waits longer than this for the other to take or send the next part of a request. */
  rehearsalIdleMs: 20_000,
  /** What could not be rehearsed is tried again so many times later as the try took (5 %), and no later than this. */
  rehearsePauseFactor: 20,
  rehearsePauseMsMax: 10 * 60_000,
  /** Of one request. 10,000 Services with 5 endpoints are 25 MB in each family. */
  rehearsalBytesMax: 512 * 1024 * 1024,
  /** Of what prepares mode ipvs: a line for each set, a line for each kind of virtual server. */
  rehearsalSetupBytesMax: 64 * 1024,
  /** Texts travel in chunks of at most so many bytes. */
  rehearsalChunkBytesMax: 64 * 1024,
  /** Of one line of a request, and of the whole answer. Rules that the grammar takes are much shorter. */
  rehearsalLineBytesMax: 4 * 1024,
  rehearsalAnswerBytesMax: 8 * 1024,

  /** What a packet may need from the nat table to the filter table. */
  narrowPauseMs: 50,

  /** A real server of mode ipvs leaves at the latest so long after nobody wanted it any more, whoever is still connected, unless the config says otherwise. */
  drainMs: 15 * 60_000,
  /** The longest that a node's config may ask for. */
  drainMsMax: 24 * 3_600_000,
  /** A set that lacks more entries than this is filled beside and swapped in. */
  setEntriesInPlaceMax: 256,

  /** How long the kernel stays on a program on trial when nobody renews it. */
  deadmanSecondsDefault: 30,
  /** The filter's half of the switch goes off so much later than nat's. */
  deadmanFilterSeconds: 2,
  /** A renewal this close to the end may come too late: then the trial is lost. */
  deadmanMarginMs: 5_000,
  /** How often the kernel's entry chains are held against what they should be during a trial. */
  invariantIntervalMs: 5_000,
  probationSecondsDefault: 10,
  /** How long a trial in manual mode waits for a person. */
  decisionSecondsDefault: 600,
  /** How often the steps after the commit token are tried before the node is held for a person. */
  finishAttemptsMax: 5,

  /** A change waits so long at most for the kernel to forget connections; what is left is forgotten behind it. */
  forgettingMsMax: 2_000,
  /** The pause before that is tried again; each further one is twice as long, up to the second number. */
  forgettingPauseMs: 2_000,
  forgettingPauseMsMax: 60_000,
  /** Flows that are still to be forgotten; of more the oldest are left to time out. */
  flowsLeftMax: 200_000,

  /** The last endpoint of a Service goes when it was the last so long, unless the config says otherwise. */
  lastEndpointAfterMs: 10_000,

  /** A release that changes the endpoints of more Services brings first ones with it, and not before: to look for them costs as much as to link it. */
  firstEndpointServicesMax: 256,

  /** An update of endpoints that takes more of a Service's at once is tried like a release. */
  endpointsLostShareMax: 0.5,

  probeAttemptsDefault: 5,
  probeIntervalMsDefault: 1_000,
  /** The rounds of a trial are at most so far apart. */
  probeIntervalMsMax: 1_000,
  probeTimeoutMsDefault: 2_000,
  /** So long probes are asked at most before a change. */
  baselineMsMax: 30_000,
  /** An update of endpoints waits so long at most to learn which probes pass before it. */
  glanceMs: 100,
  /** A probe that is not over so long after its time-out has failed, whatever it waits for. */
  probeLateMs: 500,
  /** Who outlives the command of a probe may hold its output open; so long after the command nobody reads it any more. */
  probeLeftoversMs: 100,
  probeBodyBytesMax: 4 * 1024,
  /** A command that prints more is ended. */
  probeOutputBytesMax: 1024 * 1024,
  /** What of a failed probe's output is kept in the history. */
  probeExcerptCharsMax: 400,

  /** What a client of the status server or of a health-check node port may take for a request, for an answer, and until its next one. */
  clientMs: 5_000,
  /** How often clients are held against that. */
  clientLookMs: 1_000,
  /** Connections take files, and tools need some to be started with: LimitNOFILE= of the unit is for all. To the status port. */
  statusConnectionsMax: 64,
  /** Of all health-check node ports together. */
  healthConnectionsMax: 256,

  /** How often going back is tried before the node is held for a person. */
  rollbackAttemptsMax: 5,
  rollbackIntervalMs: 1_000,
  /** How often the confirmed generation is tried at boot, before the one before it is. */
  bootAttemptsMax: 3,
  /** … and not again once so much time has passed since the first try began: TimeoutStartSec= of the unit is for going back, too. */
  bootPatienceMs: 30_000,
  /** So many restarts within one open transaction, and the node is held. */
  recoveriesMax: 5,
  /** A bundle during whose change the process ended so often is treated as bad. */
  interruptedMax: 3,

  /** So many rules in a store are no leftover (kubernetes-sigs/iptables-wrappers). */
  storeRulesMin: 10,
  /** How often it is looked whether others use another store. */
  storeDoubtMs: 10 * 60_000,

  /** More repairs than this within the window are a fight with another writer: an alarm, and repairs at a slower pace. */
  repairsMax: 5,
  repairsWindowMs: 600_000,
  /** So many repairs are kept for `sluiced history`. */
  repairsKept: 100,
  /** So many of these fit into the window that the alarm stays while the fight goes on. */
  fightPaceMs: 60_000,

  /** A kernel that takes no change for so long makes the node unhealthy: its endpoints grow old. */
  unwrittenMsMax: 5 * 60_000,

  /**
   * A comparison that an event asked for comes at the earliest so long after the last one. Over time comparisons take 2 % of a processor:
   * each is paid for by a pause of so many times what it took. So many are ahead of their pauses: what others do is put right at once,
   * also right after a start, and whoever does it more often meets the alarm of a fight (`repairsMax`) before a pause.
   */
  comparePauseMs: 500,
  comparePauseFactor: 50,
  comparisonsAtOnce: 8,
  /** Rules that nobody has looked at for so long are not called healthy; where one look takes much, for so many pauses between two. */
  unseenMsMax: 60_000,
  unseenPausesMax: 3,
  /**
   * A scan compares the tables though nobody told of a change, so many times later as the last comparison took (0.13 %). Where one takes
   * longer than 0.75 s the maximum counts: what no event tells is found within it, whatever that costs.
   */
  compareAgainFactor: 800,
  compareAgainMsMax: 10 * 60_000,
  /** Such a comparison lets changes of the bundle directory go first, though no longer than this. */
  compareLateMsMax: 2 * 60_000,
  /**
   * Where no events tell of changes: the pause between two looks, and at least so many times what of a processor a look took (2 %). At
   * 10,000 Services in the legacy store that is some 0.5 s, so what others remove is found within 30 s; at 1,000 within 5 s.
   */
  pollPauseMs: 2_000,
  pollPauseFactor: 50,
  /** A scan looks at every file of the bundle directory, so many times later as the last such look took (0.1 %), … */
  wholeLookFactor: 1_000,
  /** … and no later than this: the first look also packs every file, which says little of the next one. */
  wholeLookMsMax: 10 * 60_000,
  /** It is relied on once it has run for so long. */
  monitorTrustMs: 1_000,
  monitorRestartMs: 1_000,
  monitorRestartMsMax: 10 * 60_000,
  /** Of what somebody else changed, so many lines are told, each so long. */
  changesToldMax: 5,
  changeCharactersMax: 200,
  /** What the newest of our own processes change is no drift. */
  ownProcessesKept: 512,
  /** Where the kernel's ids of processes are not ours: how long after one of ours began a change is taken for its own. */
  ownChangeToldMs: 60_000,

  /**
   * Of foreign rules before our jumps so many are followed, into chains so many and so long, with packets of so many clients by so many
   * interfaces; so many Services are named that they take packets of.
   */
  orderRulesMax: 64,
  orderChainsMax: 256,
  orderChainRulesMax: 1_000,
  orderClientsMax: 4,
  orderServicesMax: 20,
  /** Of all frontends so many are asked for, and so many packets are led through our rules: up to 2 ms each in layout flat with 10,000 Services. */
  orderFrontendsMax: 256,
  orderTracesMax: 1_000,

  scanIntervalMsDefault: 30_000,
  /** Events of one write arrive in a burst; one scan serves them all. */
  eventSettleMs: 50,
  /** A file changed so shortly before it was read may change again within the same tick of the file system's clock. */
  racyMs: 2_000,

  /** So many releases in a row may fail, each another version, before the next one waits. */
  failuresAtOnce: 2,
  /** After one more, no other is tried by itself for so long; twice as long after each that fails next. */
  holdDownMs: 5 * 60_000,
  holdDownMsMax: 4 * 3_600_000,
  hourMs: 3_600_000,
  /** Releases that a node takes by itself in an hour, unless its config says otherwise: with a trial of 10 s each, a sixth of the time. */
  releasesPerHourDefault: 60,
  releasesPerHourMax: 360,

  /** How much the heap may grow over what is in use before it is collected. */
  heapGrowthPercent: 40,
  /** More than this over what was in use last is given back when there is nothing else to do. */
  heapSlackBytes: 2 * 1024 * 1024,
  /** The pause between two such collections, and at least so many times as long as one took (0.2 %), shorter the more there is to give back. */
  collectPauseMs: 10_000,
  collectPauseFactor: 600,

  generationsKept: 10,
  /** Generations under a name: each holds its programs, 3 to 25 MB at 10,000 Services. */
  checkpointsMax: 16,
  /** So many updates of endpoints are kept as what differs from the one before; the next one says what all of them changed. */
  deltasMax: 32,
  /** With more chains than this a state is stored whole. */
  deltaChainsMax: 1024,
  /** … and with more than this, of many updates: 1 MB, where 60,000 chains are 25 MB in 256 files. */
  mergedChainsMax: 4096,
  /** After so many updates what nothing needs any more leaves the disk, when there is nothing else to do; and after so many anyway. */
  updatesPerSweep: 32,
  updatesPerSweepMax: 256,
  /** How often the text for people is brought up to date when only endpoints change. */
  textIntervalMs: 5 * 60_000,
  historyEntriesMax: 200,
  quarantinedMax: 64,
  /** Of why something ended: the output of a probe may be long. */
  reasonCharactersMax: 400,
  /** A tool that could not be started for want of memory, processes or files is tried so often. */
  startAttemptsMax: 3,
  startPauseMs: 200,
  /** The kernel is asked so often whether rules may ask sets, where it is not clear what it said. */
  switchQuestionsMax: 5,
  /** The lock may be held by a tool that outlived its parent; it ends or is killed within this time. */
  lockWaitSeconds: 10,
  /** The newest receipts of this node that stay in their directory. */
  receiptsKeptDefault: 32,
  receiptsKeptMax: 10_000,
  statusReadMsMax: 5_000,
  /** Of the control socket, which only root opens. */
  controlConnectionsMax: 16,
  controlRequestBytesMax: 4 * 1024,
  /** An order of an operator waits so long for a change in progress. */
  orderWaitMs: 60_000,
} as const;

/** What servers of HTTP bear from a client, as node:http takes it. */
export const serverTimes = {
  connectionsCheckingInterval: limits.clientLookMs,
  headersTimeout: limits.clientMs,
  requestTimeout: limits.clientMs,
  keepAliveTimeout: limits.clientMs,
} as const;
