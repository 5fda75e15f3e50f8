import { type Family, isRuleLine } from '@sluice/netfilter';
import { LineSplitter } from '../../message.ts';
import type { SavedTable } from '../doctor/facts.ts';
import type { Run } from '../../kernel/command.ts';
import { findTool, type RuleStore } from '../../kernel/tools.ts';
import { bounds } from './bounds.ts';

/** Chains of single Services: there may be 60,000, and the comparison with the active generation judges them. */
const ofOneService = /^(?:KUBE-(?:SVC|SVL|SEP|EXT|FW|XLB)-|SLU-|SLUICE-[RT]-)/;

/**
 * The tables of both rule stores. Rules that a comparison reads are kept on their way to it: at 10,000 Services a store takes seconds to
 * read. Saving needs no lock and creates no table.
 */
export class SavedTables {
  /** By the path of the tool that printed them. */
  readonly #read = new Map<string, TableReader>();

  /** The same, but keeps what tools print of whole stores. */
  keeping(run: Run): Run {
    return async (command) => {
      const { file, args, onOutput } = command;
      if (!file.endsWith('-save') || args.length > 0 || !onOutput) return run(command);
      const reader = new TableReader();
      const ran = await run({ ...command, onOutput: (part) => (onOutput(part), reader.take(part)) });
      if (ran.exitCode === 0) this.#read.set(file, reader);
      return ran;
    };
  }

  /** The tables of store nft that its tool cannot print, of those that were read. */
  unprinted(): readonly { readonly family: Family; readonly table: string }[] {
    return (['ipv4', 'ipv6'] as const).flatMap((family) => {
      const file = findTool(`${family === 'ipv4' ? 'iptables' : 'ip6tables'}-nft-save`) ?? '';
      return (this.#read.get(file)?.unprinted ?? []).map((table) => ({ family, table }));
    });
  }

  /**
   * All tables of a rule store and family, from what was kept, else from its tool. Without that tool there are none.
   * @throws Error when the tool fails
   */
  async of(store: RuleStore, family: Family, run: Run): Promise<readonly SavedTable[]> {
    const file = findTool(`${family === 'ipv4' ? 'iptables' : 'ip6tables'}-${store}-save`);
    if (file === undefined) return [];
    if (!this.#read.has(file)) {
      const ran = await this.keeping(run)({ file, args: [], timeoutMs: bounds.toolMs, onOutput: () => undefined });
      if (ran.exitCode !== 0) throw new Error(ran.why);
    }
    return [...(this.#read.get(file)?.done() ?? [])].map(([table, chains]) => ({ store, family, table, chains }));
  }
}

/** `# Table `filter' is incompatible, use 'nft' tool.` */
const unprinted = /^# Table `(\w+)' is incompatible/;

type Building = Map<string, { policy: string; rules: string[]; isCut?: true }>;

/** Reads the output of `iptables-save` in parts, within bounds: a chain that has more rules is marked. */
export class TableReader {
  readonly #tables = new Map<string, Building>();
  /** Tables of which the tool says that it cannot print them. */
  readonly unprinted: string[] = [];
  #table: Building | undefined;
  readonly #lines = new LineSplitter((line) => this.#line(line));
  /** How many more rules and chains are kept. */
  #left: number = bounds.rules;

  take(part: string): void {
    this.#lines.take(part);
  }

  done(): ReadonlyMap<string, SavedTable['chains']> {
    this.take('\n');
    return this.#tables;
  }

  #line(line: string): void {
    if (line.startsWith('*')) {
      this.#table = new Map();
      this.#tables.set(line.slice(1).trim(), this.#table);
      return;
    }
    if (line.startsWith('#')) {
      const [, left] = unprinted.exec(line) ?? [];
      if (left !== undefined) this.unprinted.push(left);
      return;
    }
    if (line.startsWith(':')) {
      const [, name = '', policy = ''] = /^:(\S+) (\S+)/.exec(line) ?? [];
      if (name === '' || ofOneService.test(name)) return;
      // Packets meet the built-in chains, which have a policy, in any case.
      if (this.#left-- > 0 || policy !== '-') this.#table?.set(name, { policy, rules: [] });
      return;
    }
    const end = isRuleLine(line) ? line.indexOf(' ', 3) : -1;
    const chain = end < 0 ? undefined : this.#table?.get(line.slice(3, end));
    if (!chain) return;
    if (chain.rules.length < bounds.rulesPerChain && this.#left-- > 0) chain.rules.push(line);
    else chain.isCut = true;
  }
}
