import { bundleLimits } from '@sluice/bundle';

export { liveLimits, type Pace, pauseAfter, pauseBeforeRetry, paces, retries } from './paces.ts';

/** Every bound in the applier, with its unit. A number elsewhere is a mistake. */
export const limits = {
  /** `sluiced.yaml`. */
  configBytesMax: 1024 * 1024,
  // Of finding changes by other programs, and of repairing them.
  /** More repairs than this within the window are a drift loop with another program: an alarm, and repairs at a slower pace. */
  repairsMax: 5,
  repairsWindowMs: 600_000,
  /** Repairs that are kept for `sluiced history`. */
  repairsKept: 100,
  /** The pause between repairs in a drift loop; short enough that the alarm stays raised while the loop lasts. */
  driftLoopPaceMs: 60_000,

  /** How many comparisons may run ahead of their pauses (`paces.comparison`). */
  comparisonsAtOnce: 8,
  /** Rules that were not read for this long do not count as healthy; where one reading is slow, for this many pauses between two. */
  unseenMsMax: 30_000,
  unseenPausesMax: 3,
  /** What a first release put into the table of mode nftables is read back this long after packets meet it. */
  readBackMs: 500,
  /** How long a comparison without an event may be postponed by changes of the bundle directory. */
  compareLateMsMax: 2 * 60_000,
  /** How often it is proved that the monitor hears (0.1 ms); how soon again when it seems not to; how long it may seem so, as on a busy machine. */
  hearPauseMs: 1_000,
  hearAgainMs: 250,
  hearLateMsMax: 1_000,
  /** Events are relied on once the monitor has run for this long. */
  monitorTrustMs: 1_000,
  /** How long a new one may take until it listens, and the pause between two looks whether it does. */
  monitorListensMs: 2_000,
  monitorLookMs: 5,
  /** Reported lines of a foreign change, and the length of each. */
  changesShownMax: 5,
  changeCharactersMax: 200,
  /** Our own newest processes, whose changes are not drift. */
  ownProcessesKept: 512,
  /** Where the kernel's process ids are not ours: how long after one of our processes began a change is attributed to it. */
  ownChangeReportedMs: 60_000,

  /** packages/bundle/README.md, "Limits". */
  fileBytesMax: bundleLimits.fileBytesMax,
  bundleBytesMax: bundleLimits.treeBytesMax,
  bundleFilesMax: bundleLimits.filesMax,
  bundleDepthMax: 8,
  /** Larger files stay unpacked in memory. */
  packedBytesMax: 1024 * 1024,
  /** What was read is packed when the daemon is idle, so much at once, in some 10 ms. */
  packedAtOnceBytes: 512 * 1024,
  packPauseMs: 20,
  /** Until then it takes at most this much, and twice that where texts are not Latin. */
  unpackedBytesMax: 64 * 1024 * 1024,
  /** One-line output of git. */
  gitAnswerBytesMax: 64 * 1024,
  /** The header that git prints before an object's bytes. */
  gitHeaderBytesMax: 256,
  /** The list of a tree: all files that a bundle may have, with 250 bytes each. */
  gitListBytesMax: bundleLimits.filesMax * 250,
  /** Files and folders of a repository: all files of a bundle as loose objects, and as many again. */
  gitEntriesMax: 2 * bundleLimits.filesMax,
  /** The objects of one request to git have at most this many bytes; a larger object is requested alone. */
  gitBatchBytesMax: 16 * 1024 * 1024,

  /** Damaged files of the state directory are named for a day, the newest of them. */
  damageReportedMs: 24 * 3600_000,
  /** The alarm of a file that was written again. */
  damageAlarmMs: 3600_000,
  damagedFilesKept: 20,
  /** The active generation's files are read again, 20 MB at 10,000 Services, after each release and so often. */
  stateCheckMs: 3600_000,

  /** Retries of a read that failed for want of memory, files or a bus that is being reset. */
  readAttemptsMax: 4,
  readPauseMs: 200,

  /** How long a receipt relies on it that no kube-proxy runs: finding one reads the command line of each process of the node. */
  kubeProxyAbsentMs: 10_000,
  /** Timeout of one run of a tool. 230,000 rules need 3 to 9 seconds on iptables 1.8.9. */
  commandTimeoutMs: 60_000,
  /** Health names a tool that runs for longer, or for half of its own timeout where that is more: none needs a third of this (see above). */
  toolSlowMs: 30_000,
  /** From SIGTERM to SIGKILL. */
  commandKillDelayMs: 2_000,
  /** For `-w`: how long a tool waits for the xtables lock. */
  xtablesLockSeconds: 5,
  /** Attempts of a legacy tool that does not get the lock (exit code 4). */
  xtablesLockAttemptsMax: 3,
  /** Timeout for one signature; OpenSSH needs 5 ms. */
  verifyTimeoutMs: 10_000,
  commandOutputBytesMax: 256 * 1024 * 1024,
  /** A text up to this is given to a tool in one call: the socket in place of a pipe takes 208 KiB (net.core.wmem_default), with overhead. */
  pipeBytesMax: 64 * 1024,
  /** Of `sluice parity`, for 10,000 Services: 20 s and less than 64 MiB. */
  parityMs: 120_000,
  parityReportBytesMax: 64 * 1024 * 1024,

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
   * Below, processes and planning cost most; above, the quadratic cost.
   */
  chainsPerPayloadMax: 500,
  /**
   * Up to this many changed chains are read back one by one; beyond it the whole table is. An endpoint of layout tree changes about ten: 5
   * ms each, where the table of 1,000 Services takes 160 ms and that of 10,000 ten times as long.
   */
  chainsReadSinglyMax: 32,

  /** Duration of a rehearsal in the unit, from the connection to the answer. RuntimeMaxSec= of the unit is the same. */
  rehearsalMs: 90_000,
  /** How long either side waits for the other to take or send the next part of a request. */
  rehearsalIdleMs: 20_000,
  /** Size of one request. 10,000 Services with 5 endpoints are 25 MB in each family. */
  rehearsalBytesMax: 512 * 1024 * 1024,
  /** Size of the setup for mode ipvs: a line for each set, a line for each kind of virtual server. */
  rehearsalSetupBytesMax: 64 * 1024,
  /** Texts are sent in chunks of at most this size. */
  rehearsalChunkBytesMax: 64 * 1024,
  /** Size of one line of a request, and of the whole answer. Rules that the grammar accepts are much shorter. */
  rehearsalLineBytesMax: 4 * 1024,
  rehearsalAnswerBytesMax: 8 * 1024,

  /** The time that a packet may need from the nat table to the filter table. */
  narrowPauseMs: 50,
  /** With more clients of session affinity the table of mode nftables is read set by set, without them. */
  clientsReadMax: 20_000,

  /** The map that remembers clients of session affinity: the alarm begins at this share of its size, and ends below the second one. */
  affinityFillAlarm: 0.8,
  affinityFillClear: 0.7,
  /**
   * Memory of an nft that lists clients, and its share of one client: 1.68 kB by nft 1.0.6, 1.43 kB by 1.1.3. So 80 % of the default size
   * can be counted, within MemoryMax= of the unit.
   */
  affinityListBytesMax: 1_500_000_000,
  affinityClientBytes: 1_700,
  /** A million clients take 30 s of processor time, and a busy machine takes some times as long. */
  affinityCountTimeoutMs: 5 * 60_000,

  /** Counts of endpoints of mode nftables whose elements are gone: 10 MB. */
  deletedCountsKept: 65_536,
  /** The listing of one map with counters: 50,000 endpoints are 4 MB. */
  countsListBytesMax: 256 * 1024 * 1024,
  /** Readings before elements of mode nftables are deleted: one at 50,000 endpoints takes 1.6 s, and at 1,000 20 ms. */
  deletionReads: { share: 0.002, burstMs: 2_000 },
  /** A million tracked connections take 10 s of a processor to read, and a busy machine some times as long. */
  trackedReadMsMax: 5 * 60_000,
  /** Services and frontends whose counts are in `/status` and in metrics by default: those with most; and endpoints of each in `/status`. */
  countedFrontendsShown: 50,
  /** The most that a config may ask for: with 100 endpoints of each, /status has 12 MB. */
  countedServicesMax: 200,
  countedEndpointsShown: 100,
  /** How long connections of endpoints are added up before they are compared with their shares again. */
  balanceWindowMs: 10 * 60_000,
  /**
   * An endpoint is far from its share when it should have had this many connections at least, and had twice as many or half of it, and
   * that is more than 5 standard deviations away: by chance, one window of an endpoint in some hundred million is.
   */
  imbalanceExpectedLeast: 50,
  imbalanceFactor: 2,
  imbalanceSigmas: 5,
  /** How many of them are told. */
  imbalancesReported: 50,
  /** How often a file says that the main loop makes progress. */
  aliveMs: 10_000,
  /** How often `sluiced top` shows its page again on a terminal. */
  topRefreshMs: 2_000,

  /** How long a removed real server of mode ipvs drains before its connections are cut, unless the config sets it. */
  drainMs: 15 * 60_000,
  /** The largest value in a node's config. */
  drainMsMax: 24 * 3_600_000,
  /** How long a node that leaves mode ipvs waits, after the probation, for the end of connections that IPVS forwards. Changes wait as long. */
  ipvsEndMsMax: 2_000,
  /** A set that lacks more entries than this is built beside the old one and swapped in. */
  setEntriesInPlaceMax: 256,

  /** How long the kernel keeps a program on probation without a renewal. */
  deadmanSecondsDefault: 30,
  /** How much later than nat's half of the switch the filter's half expires. */
  deadmanFilterSeconds: 2,
  /** A renewal this close to the expiry may come too late: then the release is rolled back. */
  deadmanMarginMs: 5_000,
  /** How often the kernel's entry chains are compared with the desired ones during probation. */
  invariantIntervalMs: 5_000,
  probationSecondsDefault: 10,
  /** How long probation in manual mode waits for an operator. */
  decisionSecondsDefault: 600,
  /** Attempts of the steps after the commit record in a row, as of a rollback. */
  finishAttemptsMax: 5,

  /** How long a change waits for the kernel to forget connections; the rest is forgotten after it. */
  forgettingMsMax: 2_000,
  /** Paths of connections that such a comparison looks at. */
  trackedPathsMax: 200_000,
  /** Flows that are queued to be forgotten; of more, the oldest are left to time out. */
  flowsLeftMax: 200_000,

  /** The last-endpoint delay, unless the config sets it. */
  lastEndpointAfterMs: 10_000,

  /** A release that changes endpoints of more Services applies first endpoints with the rest: finding them costs as much as linking. */
  firstEndpointServicesMax: 256,

  /** An endpoint update that removes a larger share of a Service's endpoints is applied with probation, like a release. */
  endpointsLostShareMax: 0.5,

  probeAttemptsDefault: 5,
  probeIntervalMsDefault: 1_000,
  /** Longest pause between two probe rounds of probation. */
  probeIntervalMsMax: 1_000,
  probeTimeoutMsDefault: 2_000,
  /** Longest time for probes before a change. */
  baselineMsMax: 30_000,
  /** Rounds of these probes: another one where another program changed the rules meanwhile. */
  baselineTriesMax: 3,
  /** How long an endpoint update waits to learn which probes pass before it. */
  glanceMs: 100,
  /** A probe that is still running this long after its timeout has failed. */
  probeLateMs: 500,
  /** How long output is read after the command of a probe ended: its children may keep the pipe open. */
  probeLeftoversMs: 100,
  probeBodyBytesMax: 4 * 1024,
  /** A command that prints more is killed. */
  probeOutputBytesMax: 1024 * 1024,
  /** Size of a failed probe's output in the history. */
  probeExcerptCharsMax: 400,

  /** Timeouts for a client of the status server or of a health-check node port: for its request, for the answer, until its next request. */
  clientMs: 5_000,
  /** How often these timeouts are checked. */
  clientLookMs: 1_000,
  /** Connections use file descriptors, and starting tools needs some too: LimitNOFILE= of the unit is for both. To the status port. */
  statusConnectionsMax: 64,
  /** To all health-check node ports together. */
  healthConnectionsMax: 256,
  /** Through all node ports on ::1 together: two file descriptors each, and some 100 kB where bytes wait in both directions. */
  relaysMax: 512,
  /** To an endpoint (`dialTimeout` in kube-proxy's `pkg/proxy/localnodeportproxy`). */
  relayConnectMs: 5_000,
  /** Silence after which the kernel asks whether the far end is there: nothing else ends a connection that both sides keep open. */
  relayKeepAliveMs: 30_000,
  /** How exactly it is known which connection was silent longest. */
  relayNoticeMs: 1_000,

  /** Attempts of a rollback in a row. Then the node is halted if the kernel refuses, else it is tried again after a pause. */
  rollbackAttemptsMax: 5,
  /** No further attempt in a row after this time: with a tool that hangs each takes `commandTimeoutMs`. */
  attemptsMsMax: 20_000,
  rollbackIntervalMs: 1_000,
  /** Attempts to load the confirmed generation at boot, before the previous one is tried. */
  bootAttemptsMax: 3,
  /** No further attempt after this time since the first one: TimeoutStartSec= of the unit includes the rollback. */
  bootPatienceMs: 30_000,
  /** Restarts within one open transaction before the node is halted. */
  recoveriesMax: 5,
  /** Crashes during the change to a bundle before it counts as bad. */
  interruptedMax: 3,

  /** A store with this many rules is in use, not left over (kubernetes-sigs/iptables-wrappers). */
  storeRulesMin: 10,
  /** How often the other rule store is checked for foreign rules. */
  storeDoubtMs: 10 * 60_000,
  /** How often it is checked, in mode nftables, whether nft can still write. */
  nftCheckMs: 60_000,

  /** A kernel that refuses endpoint updates for this long makes the node unhealthy: its endpoints are stale. */
  unwrittenMsMax: 5 * 60_000,

  /** How long such a read may be postponed by changes of the directory; files of one of its steps, 5 ms. */
  wholeLookLateMsMax: 2 * 60_000,
  filesPerStep: 250,
  /** The process that owns the table of mode nftables is replaced when it has more; a large transaction takes 40 MB. */
  nftHelperBytesMax: 64 * 1024 * 1024,
  /** Errors of one transaction; a helper that prints more is killed. */
  nftHelperOutputBytesMax: 4 * 1024 * 1024,
  /** Each of the two outputs of one tool that the shell started; a shell that passes on more is killed. */
  toolShellOutputCharactersMax: 64 * 1024,
  /** For one transaction of it, and 1 ms more for this many bytes of its text. Then the next one is a process of its own. */
  nftHelperTimeoutMs: 20_000,
  nftHelperBytesPerMs: 1_000,
  /** Before the table is owned again after its owner ended, doubled after each end until it lasted for `nftOwnAgainMsMax`. */
  nftOwnAgainMs: 50,
  nftOwnAgainMsMax: 60_000,
  /** Bounds of the search for foreign rules before our jumps: rules, chains, rules per chain, clients (and interfaces), Services named. */
  orderRulesMax: 64,
  orderChainsMax: 256,
  orderChainRulesMax: 1_000,
  orderClientsMax: 4,
  orderServicesMax: 20,
  /** Frontends that are tested, and packets that are traced through our rules: up to 2 ms each in layout flat with 10,000 Services. */
  orderFrontendsMax: 256,
  orderTracesMax: 1_000,

  scanIntervalMsDefault: 30_000,
  /** Events of one write arrive in a burst; one scan serves them all. */
  eventSettleMs: 50,
  /** How long a directory is read ahead of a writer that never pauses; then it is left to scans, as one without a writer. */
  readAheadMsMax: 60_000,
  /** A file that changed this shortly before it was read may change again within the same tick of the file system's clock. */
  racyMs: 2_000,

  /** Releases in a row, of different versions, that may fail before the next one waits. */
  failuresAtOnce: 2,
  /** The wait after one more failure; doubled after each further one. */
  backOffMs: 5 * 60_000,
  backOffMsMax: 4 * 3_600_000,
  hourMs: 3_600_000,
  /** Releases that may be rolled back in an hour, unless the config sets it: at 10 s of probation each, a sixth of the time. */
  releasesPerHourDefault: 60,
  /** At most `historyEntriesMax` of them are remembered, so that more than this is no limit. */
  releasesPerHourMax: 360,
  /** How much longer than its probation a release that a limit delays may wait before the node is unhealthy. */
  releaseWaitMs: 15_000,
  /** How long a writer of the bundle directory may take, before a move from kube-proxy is refused for it: 10,000 Services take 1 s. */
  writerAtWorkMs: 5_000,
  /** How long Services from the API server may be missing in the kernel: six times the probation of a release, and more than its retries. */
  servicesLateSecondsDefault: 60,
  /** Services that the alarm of a waiting release names; the others are counted. */
  servicesNamedMax: 5,

  /** Growth of the heap over the bytes in use before it is collected. */
  heapGrowthPercent: 40,
  /** When idle, more than this over the bytes last in use is returned. */
  heapSlackBytes: 2 * 1024 * 1024,
  /** The same for this long after a change: a collection takes 0.1 s of a processor, as much as several changes of endpoints. */
  heapSlackAtWorkBytes: 5 * 1024 * 1024,
  collectQuietMs: 5_000,

  generationsKept: 10,
  /** Each checkpoint keeps its programs, 3 to 25 MB at 10,000 Services. */
  checkpointsMax: 16,
  /** Endpoint updates and releases that are stored as a difference from the one before; the next one is merged with all of them. */
  deltasMax: 32,
  /** A state with more changed chains is stored whole. */
  deltaChainsMax: 1024,
  /** … and with more than this where differences are merged: 1 MB, where 60,000 chains are 25 MB in 256 files. */
  mergedChainsMax: 4096,
  /** Unused programs are removed from the disk after this many updates, when idle; and after the second number in any case. */
  updatesPerSweep: 32,
  updatesPerSweepMax: 256,
  historyEntriesMax: 200,
  quarantinedMax: 64,
  /** Versions of Services; and how many Services a partial generation may lack: with more, all of a release is rolled back. */
  quarantinedServicesMax: 64,
  partialServicesMax: 16,
  /** Length of the reason for an outcome: the output of a probe may be long. */
  reasonCharactersMax: 400,
  /** Attempts to start a tool when memory, processes or files are short. */
  startAttemptsMax: 3,
  startPauseMs: 200,
  /** Attempts to find out whether rules can match sets, when the kernel's answer is ambiguous. */
  switchQuestionsMax: 5,
  /** A tool that outlived its parent may hold the lock; it ends or is killed within this time. */
  lockWaitSeconds: 10,
  /** The newest receipts, which stay in the directory. */
  receiptsKeptDefault: 32,
  receiptsKeptMax: 10_000,
  statusReadMsMax: 5_000,
  /** 50 Services with their endpoints take less than one. */
  statusBytesMax: 16 * 1024 * 1024,
  /** The control socket, which only root opens. */
  controlConnectionsMax: 16,
  controlRequestBytesMax: 4 * 1024,
  /** How long an operator's order waits for a change in progress. */
  orderWaitMs: 60_000,
  /** A drain: clients that it remembers, how lately one asked (health checks come every 5 to 30 s), how often it is told (2 or 3 are usual). */
  drain: { askersMax: 256, askerMs: 60_000, told: 3 },
  /** `/vip`: how lately rules must be seen, and a probe asked for; frontends with files, how often these are written, and how long one holds; how long a change of rules counts after its repair, so that each asker hears of it. */
  vip: { seenMs: 15_000, askedMs: 60_000, frontendsMax: 256, fileMs: 250, fileHoldsMs: 2_000, calmMs: 1_000 },
  /** The share of connections that the kernel tracks at which the alarm begins, and below which it ends. A full table drops new ones. */
  conntrackFillAlarm: 0.9,
  conntrackFillClear: 0.8,
  /** How long `sluiced status --wait` and `sluiced drain --wait` wait at most, unless the operator says, in seconds. */
  waitSecondsDefault: 120,
  /** How often they ask: a tenth of what an operator notices. */
  waitPollMs: 200,
} as const;

/** Client timeouts of our HTTP servers, for node:http. */
export const serverTimes = {
  connectionsCheckingInterval: limits.clientLookMs,
  headersTimeout: limits.clientMs,
  requestTimeout: limits.clientMs,
  keepAliveTimeout: limits.clientMs,
} as const;
