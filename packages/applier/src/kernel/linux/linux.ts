import { KernelError } from '../../ports/failure.ts';
import { failed, garbled, kindOf, mustPrint, notInstalled } from '../failure.ts';
import { messageOf } from '../../message.ts';
import {
  type Family,
  type FamilyProgram,
  ipvsInterface,
  type SysctlKey,
  type TableName,
  tableNames,
} from '@sluice/netfilter';
import { limits } from '../../limits.ts';
import type { ChainNames, ChainRules, TrackedFlow, TrackedPath, Kernel, Step, Switch } from '../../ports/kernel.ts';
import type { NodeState, Observed, ObservedFamily } from '../../ports/node-state.ts';
import { Interrupted } from '../../apply/transaction/restore.ts';
import { proxyTables } from '../nft/proxy-tables.ts';
import { interfaceAddresses, interfaceNames } from '../facts.ts';
import type { ChangeCount } from '../changes/change-count.ts';
import { LinuxIpvs } from '../ipvs/ipvs-linux.ts';
import { forgetFlows, readTrackedPaths } from '../conntrack/conntrack.ts';
import { EitherSwitch } from '../either-switch.ts';
import { LinuxNft } from '../nft/nft-linux.ts';
import type { NftWriter } from '../nft/nft-writer.ts';
import { NftSwitch } from '../nft/nft-switch.ts';
import { rehearser } from '../scratch/rehearse.ts';
import type { Command, ToolResult, Run } from '../command.ts';
import { readList, SaveReader } from '../save.ts';
import type { Tunables } from '../sysctl.ts';
import { type FamilyTools, findIpvsTools, findTool, type Tools } from '../tools.ts';

/** The errors of both stores for a missing chain or table. */
const absent = /No chain\/target\/match by that name|does not exist|is incompatible, use 'nft' tool/;

function bothSwitches(ofTables: Switch | undefined, nft: LinuxNft | undefined): Switch | undefined {
  const own = (): readonly string[] => Object.values(interfaceAddresses()).flat();
  const ofNft = nft && new NftSwitch(nft, own);
  return ofTables && ofNft ? new EitherSwitch(ofTables, ofNft) : (ofTables ?? ofNft);
}

/** The kernel of this machine, through its tools. */
export class LinuxKernel implements Kernel {
  readonly #tools: Tools;
  readonly #run: Run;
  readonly #tunables: Tunables;
  readonly ipvs: LinuxIpvs | undefined;
  readonly nft: LinuxNft | undefined;
  readonly rehearse: Kernel['rehearse'];
  readonly switch: Switch | undefined;
  readonly knowsBpf: boolean;
  readonly #count: ChangeCount | undefined;
  #hashSizeFixed = false;

  /**
   * @param switchStates the result of `findSwitch`
   * @param rehearse where rehearsals run; default: in namespaces of children
   * @param bpf the result of `knowsBpf`
   * @param nftWriter default: a new process for each transaction
   * @param count default: changes are not counted
   */
  constructor(
    tools: Tools,
    run: Run,
    tunables: Tunables,
    switchStates?: Switch,
    rehearse?: Kernel['rehearse'],
    bpf = true,
    nftWriter?: NftWriter,
    count?: ChangeCount,
  ) {
    this.#count = count;
    this.knowsBpf = bpf;
    this.rehearse = rehearse ?? rehearser('namespace', tools, run);
    this.#tools = tools;
    this.#run = run;
    this.#tunables = tunables;
    const ipvsTools = findIpvsTools();
    this.ipvs = 'missing' in ipvsTools ? undefined : new LinuxIpvs(ipvsTools, run);
    const nft = findTool('nft');
    this.nft = nft === undefined ? undefined : new LinuxNft(nft, run, nftWriter);
    this.switch = bothSwitches(switchStates, this.nft);
  }

  get slowWithManyChains(): boolean {
    return this.#tools.backend === 'nft';
  }

  async observe(
    families: readonly Family[],
    known?: Pick<NodeState, 'families'>,
    interrupt?: AbortSignal,
  ): Promise<Observed> {
    const observed: { [F in Family]?: ObservedFamily } = {};
    for (const family of families) observed[family] = await this.#save(family, known?.families[family], interrupt);
    return observed;
  }

  async #save(family: Family, known: FamilyProgram | undefined, interrupt?: AbortSignal): Promise<ObservedFamily> {
    const { save } = this.#toolsOf(family);
    let reader = new SaveReader(known);
    const begin = (): void => {
      // A retried tool prints everything again.
      reader = new SaveReader(known);
    };
    const command = { file: save, args: [], onOutput: (part: string) => reader.take(part), signal: interrupt };
    try {
      await this.#must(command, save, begin);
    } catch (error) {
      throw interrupt?.aborted === true ? new Interrupted() : error;
    }
    const observed = reader.done();
    if (reader.strange !== undefined || reader.isCut) throw garbled(save, reader.strange ?? 'a table without an end');
    return observed;
  }

  async observeChains(family: Family, chains: ChainNames): Promise<ChainRules> {
    const found = { filter: new Map<string, readonly string[]>(), nat: new Map<string, readonly string[]>() };
    let rest = tableNames.flatMap((table) => (chains[table] ?? []).map((chain) => ({ table, chain })));
    while (rest.length > 0) {
      const { lists, isAbsent } = await this.#readFirst(family, rest);
      for (const [at, { table, chain }] of rest.slice(0, lists.length).entries())
        found[table].set(chain, readList((lists[at] as readonly string[]).join('\n')));
      rest = rest.slice(lists.length + Number(isAbsent));
    }
    return found;
  }

  /**
   * Reads chains up to the first that is missing, by one process: iptables-restore takes commands that list chains, and changes nothing then.
   * @param wanted at least one; those of a table follow each other
   * @returns the lines of those that were read, the first ones; whether the next one is missing
   */
  async #readFirst(
    family: Family,
    wanted: readonly { readonly table: TableName; readonly chain: string }[],
  ): Promise<{ readonly lists: readonly (readonly string[])[]; readonly isAbsent: boolean }> {
    const { restore, iptables } = this.#toolsOf(family);
    const wait = ['-w', String(limits.xtablesLockSeconds)];
    const list = { isSmall: true, isRepeatable: true };
    const sections = [...Map.groupBy(wanted, ({ table }) => table)].map(
      ([table, own]) => `*${table}\n${own.map(({ chain }) => `-S ${chain}\n`).join('')}COMMIT\n`,
    );
    let ran = await this.#withRetry({ file: restore, args: ['--noflush', ...wait], input: sections.join(''), ...list });
    // Not every failure of it tells why.
    const [first] = wanted;
    if (first && ran.exitCode !== 0 && !ran.stdout.startsWith('-') && !absent.test(ran.stderr))
      ran = await this.#withRetry({ file: iptables, args: [...wait, '-t', first.table, '-S', first.chain], ...list });
    const isAbsent = ran.exitCode !== 0 && absent.test(ran.stderr);
    mustPrint(restore, ran.stdout, (line) => /^-[NAP] /.test(line));
    const lists: string[][] = [];
    for (const line of ran.stdout.split('\n').filter((one) => one !== '')) {
      if (/^-[NP] /.test(line)) lists.push([]);
      lists.at(-1)?.push(line);
    }
    const isExpected = lists.every((lines, at) => lines.every((line) => line.split(' ', 2)[1] === wanted[at]?.chain));
    // A tool that was killed may have printed some rules of a chain.
    if (!isExpected || ran.exitCode === undefined || (lists.length === 0 && !isAbsent))
      throw failed(`${restore} (-S)`, ran);
    return { lists, isAbsent };
  }

  async changeCount(): Promise<string | undefined> {
    return this.#tools.backend === 'nft' ? this.#count?.read() : undefined;
  }

  async apply(step: Step): Promise<void> {
    switch (step.kind) {
      case 'restore-table': {
        const { restore } = this.#toolsOf(step.family);
        const args = ['--noflush', '-w', String(limits.xtablesLockSeconds)];
        await this.#must(
          { file: restore, args, input: step.text, isSmall: true, changesTables: true },
          `${restore} (${step.table})`,
        );
        return;
      }
      case 'set-sysctl':
        return this.#write(`sysctl ${step.key}=${step.value}`, () => this.#tunables.write(step.key, step.value));
      case 'raise-hashsize':
        return this.#raiseHashSize(step.value);
      case 'ipset':
      case 'ipvsadm':
      case 'ip':
        if (!this.ipvs) throw notInstalled(step.kind, 'a tool of mode ipvs is not installed');
        return this.ipvs.apply(step);
      case 'nft':
        if (!this.nft) throw notInstalled('nft');
        return this.nft.apply(step);
    }
  }

  /** Only the host's own network namespace may raise it. A smaller table is only slower, so that is no failure. */
  #raiseHashSize(value: number): void {
    try {
      this.#tunables.writeHashSize(value);
    } catch {
      this.#hashSizeFixed = true;
    }
  }

  async readSysctl(key: SysctlKey): Promise<number | undefined> {
    return this.#tunables.read(key);
  }

  async readHashSize(): Promise<number | undefined> {
    return this.#hashSizeFixed ? undefined : this.#tunables.readHashSize();
  }

  async proxyTraces(): Promise<{ readonly ipvs: boolean; readonly nftables: boolean }> {
    // Without the tool it is not known; a node without one has no kube-proxy outside of a container.
    return { ipvs: interfaceNames().has(ipvsInterface), nftables: (await proxyTables(this.#run)).length > 0 };
  }

  async forgetFlows(flows: readonly TrackedFlow[], found?: (connections: number) => void): Promise<number> {
    const conntrack = findTool('conntrack');
    if (conntrack === undefined) throw notInstalled('conntrack');
    return forgetFlows(flows, conntrack, interfaceAddresses(), this.#run, found);
  }

  async trackedPaths(among: readonly Family[], frontends: ReadonlySet<string>): Promise<readonly TrackedPath[]> {
    const conntrack = findTool('conntrack');
    if (conntrack === undefined) throw notInstalled('conntrack');
    return readTrackedPaths(conntrack, this.#run, among, frontends);
  }

  #toolsOf(family: Family): FamilyTools {
    const tools = this.#tools.families[family];
    if (!tools) throw notInstalled(`${family} tools`, 'they are not installed');
    return tools;
  }

  #write(action: string, write: () => void): void {
    try {
      write();
    } catch (error) {
      throw new KernelError(action, messageOf(error), 'refused');
    }
  }

  async #must(command: Command, action = command.file, begin?: () => void): Promise<ToolResult> {
    const ran = await this.#withRetry(command, begin);
    if (ran.exitCode !== 0) throw failed(action, ran);
    return ran;
  }

  /** Retries a legacy tool that did not get the lock (exit code 4): another process is busy, nothing is wrong. */
  async #withRetry(command: Command, begin?: () => void): Promise<ToolResult> {
    for (let attempt = 1; ; attempt++) {
      begin?.();
      const ran = await this.#run(command);
      const isBusy = ran.exitCode !== 0 && kindOf(ran) === 'busy';
      if (!isBusy || attempt >= limits.xtablesLockAttemptsMax) return ran;
    }
  }
}
