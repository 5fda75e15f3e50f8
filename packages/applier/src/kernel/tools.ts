import { failed } from './failure.ts';
import { accessSync, constants, realpathSync } from 'node:fs';
import type { Family } from '@sluice/netfilter';
import type { SluicedConfig } from '../config.ts';
import { limits } from '../limits.ts';
import type { Command, ToolResult, Run } from './command.ts';

export type RuleStore = 'legacy' | 'nft';

/** The tools of one family, pinned by absolute path: switching alternatives later has no effect here. */
export interface FamilyTools {
  readonly iptables: string;
  readonly save: string;
  readonly restore: string;
  /** Such as `1.8.9`. */
  readonly version: string;
}

/** The tools of this node. */
export interface Tools {
  readonly backend: RuleStore;
  readonly families: { readonly [F in Family]?: FamilyTools };
}

const folders = ['/usr/sbin', '/usr/bin', '/sbin', '/bin'];
const prefixes = { ipv4: 'iptables', ipv6: 'ip6tables' } as const satisfies Record<Family, string>;

/** The absolute path of a tool in the system's folders, or undefined. */
export function findTool(name: string): string | undefined {
  for (const folder of folders) {
    try {
      const path = `${folder}/${name}`;
      accessSync(path, constants.X_OK);
      return path;
    } catch {
      // Not in this folder.
    }
  }
  return undefined;
}

/**
 * Chooses the rule store and finds its tools.
 *
 * `auto` takes the store that the machine uses (`backendFor`): rules in two stores filter twice, which is hard to notice.
 * @returns the tools; a family whose tools are missing or do not run is absent
 */
export async function detectTools(wanted: SluicedConfig['backend'], run: Run): Promise<Tools> {
  const backend = wanted === 'auto' ? await detectBackend(run) : wanted;
  const families: { [F in Family]?: FamilyTools } = {};
  for (const family of ['ipv4', 'ipv6'] as const) {
    const tools = await familyTools(family, backend, run);
    if (tools) families[family] = tools;
  }
  return { backend, families };
}

async function familyTools(family: Family, backend: RuleStore, run: Run): Promise<FamilyTools | undefined> {
  const paths = toolPaths(family, backend) ?? (await unnamedTools(family, backend, run));
  if (!paths) return undefined;
  const { exitCode, stdout } = await started(run, { file: paths.iptables, args: ['--version'] });
  const version = /v(\d+\.\d+(?:\.\d+)?)/.exec(stdout)?.[1];
  if (exitCode !== 0 || version === undefined) return undefined;
  const works = await started(run, {
    file: paths.iptables,
    args: ['-w', String(limits.xtablesLockSeconds), '-t', 'nat', '-S', 'OUTPUT'],
  });
  return works.exitCode === 0 ? { ...paths, version } : undefined;
}

/**
 * Runs a tool with retries. A machine that is short of processes, files or memory for a moment still has its tools, and so has one where
 * another process holds the lock of legacy tools (exit code 4): mistaking them for missing would halt the node.
 */
async function started(run: Run, command: Command): Promise<ToolResult> {
  for (let attempt = 1; ; attempt++) {
    const ran = await run(command);
    const isLocked = ran.exitCode === 4 && ran.stderr.includes('xtables lock');
    if (isLocked && attempt < limits.xtablesLockAttemptsMax) continue;
    const isShort = ran.exitCode === undefined && /EAGAIN|ENOMEM|EMFILE|ENFILE/.test(ran.why);
    if (isLocked || isShort) throw failed(command.file, ran);
    return ran;
  }
}

type Paths = Omit<FamilyTools, 'version'>;

/** `iptables-nft`, `iptables-nft-save` and so on, or `iptables-legacy…`. */
function toolPaths(family: Family, backend: RuleStore): Paths | undefined {
  return pathsOf(`${prefixes[family]}-${backend}`);
}

/** Systems with one store have only plain names, which tell their store. */
async function unnamedTools(family: Family, backend: RuleStore, run: Run): Promise<Paths | undefined> {
  const paths = pathsOf(prefixes[family]);
  return paths && (await backendOf(paths.iptables, run)) === backend ? paths : undefined;
}

/** The path of `iptables-nft-save` and its like, or undefined. */
export const savePath = (family: Family, backend: RuleStore): string | undefined => toolPaths(family, backend)?.save;

function pathsOf(name: string): Paths | undefined {
  const [iptables, save, restore] = [findTool(name), findTool(`${name}-save`), findTool(`${name}-restore`)];
  return iptables && save && restore ? { iptables, save, restore } : undefined;
}

/** Before 1.8 there was only the legacy store, and tools did not tell. */
async function backendOf(iptables: string, run: Run): Promise<RuleStore> {
  const { stdout } = await run({ file: iptables, args: ['--version'] });
  return stdout.includes('nf_tables') ? 'nft' : 'legacy';
}

/** The content of a rule store besides Sluice's rules. */
export interface StoreUse {
  /** Rules in both families. */
  readonly rules: number;
  /** Whether the kubelet's chains are there (`KUBE-IPTABLES-HINT`, `KUBE-KUBELET-CANARY`): it uses the store of the machine. */
  readonly isKubelets: boolean;
  /** Whether there are chains of Sluice, of layout `tree`. */
  readonly hasSluice: boolean;
  /** Whether a kube-proxy in mode iptables or ipvs, or layout `flat`, has chains there. */
  readonly hasKubeProxy: boolean;
}

/** The store of plain `iptables`; undefined without it. */
async function plainBackend(run: Run): Promise<RuleStore | undefined> {
  const plain = findTool(prefixes.ipv4) ?? findTool(prefixes.ipv6);
  return plain === undefined ? undefined : backendOf(plain, run);
}

async function detectBackend(run: Run): Promise<RuleStore> {
  // Without iptables only mode nftables is possible, whose changes are those of this store.
  const others = findTool('iptables-nft') || (!findTool('iptables-legacy') && findTool('nft'));
  const plain = (await plainBackend(run)) ?? (others ? 'nft' : 'legacy');
  return backendFor({ legacy: await readStoreUse('legacy', run), nft: await readStoreUse('nft', run) }, plain);
}

/**
 * The store of a node: that of Sluice's rules, else that of the kubelet, else that of plain `iptables`. A few leftover rules in the other
 * one mean nothing; `limits.storeRulesMin` of them do, where the store of `iptables` is empty (as kubernetes-sigs/iptables-wrappers
 * decides).
 * @param plain the store of plain `iptables`
 */
export function backendFor(uses: Readonly<Record<RuleStore, StoreUse>>, plain: RuleStore): RuleStore {
  if (uses.nft.hasSluice !== uses.legacy.hasSluice) return uses.nft.hasSluice ? 'nft' : 'legacy';
  if (uses.nft.isKubelets !== uses.legacy.isKubelets) return uses.nft.isKubelets ? 'nft' : 'legacy';
  const other = otherBackend(plain);
  return uses[plain].rules === 0 && uses[other].rules >= limits.storeRulesMin ? other : plain;
}

export const otherBackend = (backend: RuleStore): RuleStore => (backend === 'nft' ? 'legacy' : 'nft');

/**
 * Saving needs no lock and creates no table.
 * @param isOurs our rules are in this store: chains with kube-proxy's names there are ours, too
 */
export async function readStoreUse(backend: RuleStore, run: Run, isOurs = false): Promise<StoreUse> {
  let rules = 0;
  let isKubelets = false;
  let hasSluice = false;
  let hasKubeProxy = false;
  for (const family of ['ipv4', 'ipv6'] as const) {
    const paths = toolPaths(family, backend);
    if (!paths) continue;
    const { stdout } = await run({ file: paths.save, args: [] });
    rules += stdout.match(isOurs ? ofThirdPrograms : ofOthers)?.length ?? 0;
    isKubelets ||= kubelets.test(stdout);
    hasSluice ||= /^:SLUICE-SERVICES /m.test(stdout);
    hasKubeProxy ||= /^:KUBE-SERVICES /m.test(stdout);
  }
  return { rules, isKubelets, hasSluice, hasKubeProxy };
}

const ofOthers = /^-A (?!SLU(?:ICE)?-)(?!.* -[jg] SLU(?:ICE)?-).*$/gm;
const ofThirdPrograms = /^-A (?!(?:SLU|SLUICE|KUBE)-)(?!.* -[jg] (?:SLU|SLUICE|KUBE)-).*$/gm;
const kubelets = /^:(?:KUBE-IPTABLES-HINT|KUBE-KUBELET-CANARY) /m;

/** Why a rule store looks wrong, with a hint. */
export interface StoreDoubt {
  readonly message: string;
  readonly hint: string;
}

/** `judgeStore` for this machine; the store in use is read only where the other one gives a reason. */
export async function storeDoubt(backend: RuleStore, run: Run): Promise<StoreDoubt | undefined> {
  const there = await readStoreUse(otherBackend(backend), run);
  return isUsed(there) ? judgeStore(backend, await readStoreUse(backend, run, true), there) : undefined;
}

const isUsed = ({ rules, isKubelets, hasSluice }: StoreUse): boolean =>
  hasSluice || isKubelets || rules >= limits.storeRulesMin;

/**
 * Why the store of this node's rules looks wrong; undefined when it does not. Packets meet the rules of both.
 * @param here the content of the store in use
 * @param there the content of the other one
 */
export function judgeStore(backend: RuleStore, here: StoreUse, there: StoreUse): StoreDoubt | undefined {
  const other = otherBackend(backend);
  if (there.hasSluice)
    return {
      message: `Both rule stores hold rules of Sluice, and packets meet both: a move to or from ${other} was interrupted`,
      hint: `Run \`sluiced backend ${backend}\` to finish it`,
    };
  const uses = { [backend]: { ...here, hasSluice: false }, [other]: there } as Record<RuleStore, StoreUse>;
  if (backendFor(uses, backend) === backend) return undefined;
  const use = (name: RuleStore): string =>
    `${name} holds ${uses[name].rules} foreign rules${uses[name].isKubelets ? ', including rules of the kubelet' : ''}`;
  return {
    message: `The rules are in the ${backend} store, but this machine seems to use ${other}; packets meet both: ${use(other)}, ${use(backend)}`,
    hint: `Move them with \`sluiced backend ${other}\`, or remove the rules there`,
  };
}

/**
 * The store that a config asks for.
 * @param pinned the store of the rules; undefined where there are none yet
 */
export const chooseStore = (
  wanted: SluicedConfig['backend'],
  pinned: RuleStore | undefined,
): SluicedConfig['backend'] => (wanted === 'auto' ? (pinned ?? 'auto') : wanted);

/** The file that a tool links to, for messages: `/usr/sbin/xtables-nft-multi`. */
export function realTool(path: string): string {
  return realpathSync(path);
}

/** The tools of mode ipvs, each by its absolute path. */
export type IpvsTools = Readonly<Record<'ipset' | 'ipvsadm' | 'ip', string>>;

/** The tools, or the names of those that are missing. */
export function findIpvsTools(): IpvsTools | { readonly missing: readonly string[] } {
  const names = ['ipset', 'ipvsadm', 'ip'] as const;
  const found = new Map(names.map((name) => [name, findTool(name)]));
  const missing = names.filter((name) => found.get(name) === undefined);
  if (missing.length > 0) return { missing };
  return Object.fromEntries(found) as IpvsTools;
}
