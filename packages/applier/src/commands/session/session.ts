import { hasLostBpf } from '../../apply/admission/kernel-context.ts';
import type { SluicedConfig } from '../../config.ts';
import { Decisions } from '../../daemon/control/decisions.ts';
import { removeLeftScratch } from '../../inbox/release-signatures.ts';
import { ChangeCount } from '../../kernel/changes/change-count.ts';
import { watchChanges } from '../../kernel/changes/changes.ts';
import type { ChangeWatch, ForeignChange } from '../../kernel/changes/foreign-change.ts';
import { OwnProcesses, readsProcessIds } from '../../kernel/changes/own-processes.ts';
import type { Run, Started } from '../../kernel/command.ts';
import { readFacts } from '../../kernel/facts.ts';
import { knowsBpf } from '../../kernel/knows-bpf.ts';
import { findSwitch, switchOf } from '../../kernel/linux/find-switch.ts';
import { LinuxKernel } from '../../kernel/linux/linux.ts';
import { affinityFills } from '../../kernel/nft/nft-clients.ts';
import { NftOwner } from '../../kernel/nft/nft-owner.ts';
import type { NftWriter } from '../../kernel/nft/nft-writer.ts';
import type { WorkCost } from '../../kernel/processor-time.ts';
import { runChildren } from '../../kernel/run.ts';
import { placeOf, rehearser } from '../../kernel/scratch/rehearse.ts';
import { procTunables } from '../../kernel/sysctl.ts';
import { throughShell, ToolShell } from '../../kernel/tool-shell.ts';
import { ToolWatch } from '../../kernel/tool-watch.ts';
import {
  detectTools,
  findTool,
  type RuleStore,
  type StoreDoubt,
  storeDoubt,
  chooseStore,
  type Tools,
} from '../../kernel/tools.ts';
import { limits } from '../../limits.ts';
import { type AffinityFill, StickyFrontends } from '../../ports/nftables/affinity.ts';
import type { NftLack, NftProtection } from '../../ports/nftables/ports.ts';
import { nodePlaneOf } from '../../apply/planes/planes.ts';
import type { NodeFacts } from '../../ports/node-facts.ts';
import type { ParityGate } from '../../ports/parity.ts';
import type { Ports, Report } from '../../ports/ports.ts';
import type { AfterUpdateDependencies } from '../../observe/probe/after-update.ts';
import { Reconciler, type ReconcilerOptions } from '../../apply/reconcile/reconciler.ts';
import { DiskJournal } from '../../state/journal.ts';
import { type Lock, takeLock } from '../../state/lock.ts';
import { Counting } from './counting.ts';
import { makeCertificateGate } from './parity.ts';
import { portsOf, reconcilerOptions } from './ports.ts';

/** A reconciler with the real kernel, disk and clock. */
export interface NodeSession extends Disposable {
  readonly reconciler: Reconciler;
  readonly journal: DiskJournal;
  /** Operators' decisions about a release on probation. */
  readonly decisions: Decisions;
  /** Whether one switch moves packets to new rules, in layout `tree`. */
  readonly hasSwitch: boolean;
  readonly hasLostBpf: boolean;
  /** Whether the machine has tools or parts of the kernel by now that this session does without; see `gained`. */
  hasGained(): Promise<boolean>;
  /** Which tool runs for too long, and for how long; undefined: none. */
  readonly slowTool: string | undefined;
  /** Watches for changes of the tables by other programs, from now on. */
  watch(monotonicMs: () => number, onChange: (change: ForeignChange) => void): ChangeWatch;
  /** The rule store that holds the rules. */
  readonly backend: RuleStore;
  /** A reconciler with other options, and another gate for take-overs. */
  reconcilerWith(options: Partial<ReconcilerOptions>, parity?: ParityGate): Reconciler;
  /** The ports with the tools of another rule store. */
  portsOf(backend: RuleStore): Promise<Ports>;
  storeDoubt(): Promise<StoreDoubt | undefined>;
  /** Why nothing can be written now on a node in mode nftables, not even a rollback. */
  nftLack(): Promise<NftLack | undefined>;
  /** How many clients of session affinity the kernel remembers; none where no Service of the node asks for it. Adds what counting takes. */
  affinityFills(cost: WorkCost): Promise<readonly AffinityFill[]>;
  readonly counting: Counting;
  /** To be called when idle: prepares tools for the next change. */
  idle(): void;
  /** How the table of mode nftables is protected; undefined: the node runs another mode. */
  nftProtection(): NftProtection | undefined;
  close(): void;
}

/**
 * What a session may do. 'look' changes nothing and takes no lock; 'frozen' writes nothing to the disk, but loads rules into the kernel
 * from what is left there, even without a readable journal; 'change' holds the lock until `close`; so does 'back', which also works on a
 * disk that takes no write.
 */
export type SessionMode = 'look' | 'frozen' | 'change' | 'back';

/**
 * Opens the node for one command or for the daemon.
 * @param onProbe `AfterUpdateParts.alarm`; default: probes are not watched after endpoint updates
 * @param throughRun sees each tool that is run, and its output
 * @throws StateError when another sluiced holds the lock or the state directory cannot be used
 */
export async function openSession(
  config: SluicedConfig,
  mode: SessionMode,
  report: Report,
  onProbe?: AfterUpdateDependencies['alarm'],
  throughRun: (run: Run) => Run = (run) => run,
): Promise<NodeSession> {
  const changes = mode === 'change' || mode === 'back';
  const lock: Lock | undefined = changes ? takeLock(config.state, limits.lockWaitSeconds, mode === 'back') : undefined;
  try {
    const { own, shell, watch, run } = toolRunner(lock?.fd, throughRun);
    const owner = mode === 'look' ? undefined : nftOwner(run, lock?.fd, own);
    const journal = openJournal(config, mode);
    const pinned = journal.active ? journal.record.backend : undefined;
    const tools = await detectTools(chooseStore(config.backend, pinned), run);
    if (changes) {
      removeLeftScratch(config.state, Date.now());
      await journal.pin(tools.backend);
    }
    report('tools', { backend: tools.backend, ipv4: tools.families.ipv4, ipv6: tools.families.ipv6 });
    const count = changeCount();
    const kernelParts = { tools, run, journal, report, nftWriter: owner, count };
    const { kernel, kernelOf, hasSwitch } = await openKernel(config, kernelParts);
    const runsNft = (): boolean => journal.active !== undefined && nodePlaneOf(journal.active.state).hasOwnTable;
    const decisions = new Decisions(config.node, journal);
    const ending = new AbortController();
    const sticky = new StickyFrontends();
    const lost = hasLostBpf({ journal, kernel });
    const parity = makeCertificateGate(config, run, tools.backend);
    const unknownRules = async (): Promise<string | undefined> => reconcilers.reconciler.unknownRules();
    const ports = portsOf(config, { kernel, journal, decisions, report, onProbe, unknownRules, parity });
    const reconcilers = makeReconcilers(config, ports, tools);
    const close = (): void => {
      ending.abort();
      owner?.close();
      count?.close();
      shell?.end();
      lock?.[Symbol.dispose]();
    };
    return {
      ...reconcilers,
      journal,
      decisions,
      hasSwitch,
      hasLostBpf: lost,
      hasGained: async () => gained({ tools, hasNft: owner !== undefined, hasSwitch, hasLostBpf: lost }, config, run),
      get slowTool() {
        return watch.slow;
      },
      watch: (monotonicMs, onChange) => watchChanges(tools, run, own, count, monotonicMs, onChange, runsNft),
      backend: tools.backend,
      portsOf: async (backend) => ({ ...ports, kernel: await kernelOf(await detectTools(backend, run)) }),
      storeDoubt: () => storeDoubt(tools.backend, run),
      nftLack: async () => (runsNft() ? kernel.nft?.lack(true) : undefined),
      counting: new Counting({ config, journal, kernel, tools, repairs: () => reconcilers.reconciler.repairs }),
      affinityFills: (cost) => readAffinityFills(journal, sticky, cost, ending.signal),
      idle: () => {
        if (runsNft()) void owner?.own();
      },
      nftProtection: () => (runsNft() ? owner?.protection : undefined),
      close,
      [Symbol.dispose]: close,
    };
  } catch (error) {
    lock?.[Symbol.dispose]();
    throw error;
  }
}

/** All tools of a session are started by its `run`. */
function toolRunner(lockFd: number | undefined, throughRun: (run: Run) => Run) {
  const own = new OwnProcesses(readsProcessIds(), () => performance.now());
  const started: Started = (pid, command) => own.add(pid, command);
  const shell = toolShell(lockFd, started);
  const children = runChildren(lockFd, started);
  const watch = new ToolWatch(() => performance.now());
  return { own, shell, watch, run: throughRun(watch.through(throughShell(children, shell))) };
}

function makeReconcilers(
  config: SluicedConfig,
  ports: Ports,
  tools: Tools,
): Pick<NodeSession, 'reconciler' | 'reconcilerWith'> {
  const facts = (): NodeFacts => readFacts(tools, procTunables);
  const reconcilerWith: NodeSession['reconcilerWith'] = (options, parity = ports.parity) =>
    new Reconciler({ ...ports, parity }, facts, { ...reconcilerOptions(config), ...options });
  return { reconciler: reconcilerWith({}), reconcilerWith };
}

/** @returns undefined if its tools are not installed */
function changeCount(): ChangeCount | undefined {
  const [monitor, setpriv] = [findTool('xtables-monitor'), findTool('setpriv')];
  const isThere = monitor !== undefined && setpriv !== undefined;
  return isThere ? new ChangeCount({ monitor, setpriv }, () => performance.now()) : undefined;
}

/** @returns undefined if sh is not installed */
function toolShell(lockFd: number | undefined, started: Started): ToolShell | undefined {
  const sh = findTool('sh');
  return sh === undefined ? undefined : new ToolShell({ sh, setpriv: findTool('setpriv'), lockFd, started });
}

/** @returns undefined if nft is not installed */
function nftOwner(run: Run, lockFd: number | undefined, own: OwnProcesses): NftOwner | undefined {
  const nft = findTool('nft');
  return nft === undefined
    ? undefined
    : new NftOwner({
        nft,
        setpriv: findTool('setpriv'),
        run,
        lockFd,
        started: (pid, command) => own.add(pid, command),
      });
}

/** Its tools hold no lock: they change nothing, and a count may take minutes. */
async function readAffinityFills(
  { active }: DiskJournal,
  sticky: StickyFrontends,
  cost: WorkCost,
  signal: AbortSignal,
): Promise<readonly AffinityFill[]> {
  const [nft, state] = [findTool('nft'), active?.state.nft];
  return nft === undefined || !state || !sticky.areIn(state)
    ? []
    : affinityFills({ nft, prlimit: findTool('prlimit'), run: cost.of(runChildren()), signal });
}

function openJournal({ state, node }: SluicedConfig, mode: SessionMode): DiskJournal {
  const now = (): Date => new Date();
  return mode === 'look' ? DiskJournal.look(state, node, now) : DiskJournal.open(state, node, now, false);
}

/** What a session found when it was opened. It works with that until it is closed. */
interface FoundTools {
  readonly tools: Tools;
  readonly hasNft: boolean;
  readonly hasSwitch: boolean;
  readonly hasLostBpf: boolean;
}

/**
 * Whether the machine has more now than a session found: tools of a family, nft, sets, xt_bpf. What is away for a moment, as while a package
 * is upgraded, must not be missing until an operator restarts the daemon. Starts tools only where something lacked.
 * @throws KernelError when a tool answers nothing definite
 */
async function gained(found: FoundTools, { rehearse }: Pick<SluicedConfig, 'rehearse'>, run: Run): Promise<boolean> {
  const { tools, hasNft, hasSwitch, hasLostBpf: isBpfLost } = found;
  if (!hasNft && findTool('nft') !== undefined) return true;
  const families = Object.keys(tools.families).length;
  if (families === 2 && hasSwitch && !isBpfLost) return false;
  const now = await detectTools(tools.backend, run);
  if (Object.keys(now.families).length > families) return true;
  if (!hasSwitch && (await findSwitch(now, run, placeOf(rehearse) === 'namespace')) !== undefined) return true;
  return isBpfLost && (await knowsBpf(now, run));
}

/** The kernel of this machine. */
interface OpenedKernel {
  readonly kernel: LinuxKernel;
  /** The same with the tools of another rule store. */
  readonly kernelOf: (tools: Tools) => Promise<LinuxKernel>;
  /** Whether one switch moves packets to new rules, in layout `tree`. */
  readonly hasSwitch: boolean;
}

interface KernelDependencies {
  readonly tools: Tools;
  readonly run: Run;
  readonly journal: DiskJournal;
  readonly report: Report;
  /** See `LinuxKernel`. */
  readonly nftWriter: NftWriter | undefined;
  readonly count: ChangeCount | undefined;
}

/** Finds out what the kernel can do. */
async function openKernel(
  { rehearse: policy }: SluicedConfig,
  { tools, run, journal, report, nftWriter, count }: KernelDependencies,
): Promise<OpenedKernel> {
  const isFlipping = journal.open?.flip === 'switch';
  const switchStates = await switchOf(tools, run, placeOf(policy) === 'namespace', isFlipping);
  const rehearse = rehearser(policy, tools, run, report);
  const kernelOf = async (its: Tools): Promise<LinuxKernel> =>
    // In layout `flat`, too: the active generation may have the other layout.
    new LinuxKernel(its, run, procTunables, switchStates, rehearse, await knowsBpf(its, run), nftWriter, count);
  return { kernel: await kernelOf(tools), kernelOf, hasSwitch: switchStates !== undefined };
}
