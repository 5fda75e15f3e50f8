import { type FamilyProgram, printChange, type TableProgram, tableNames, targetOf } from '@sluice/netfilter';

/**
 * The intermediate states from one state of a table to another, the last one included, so that no payload creates or deletes more
 * than `most` chains. iptables-nft needs time quadratic in the number of chains of a payload.
 *
 * Chains are created before a rule leads to them and deleted after the last such rule, so no packet meets an intermediate state: one
 * step changes the rules that packets meet, from those of `from` to those of `to`.
 */
export function stages(from: TableProgram, to: TableProgram, most: number): readonly TableProgram[] {
  const added = [...to.chains.keys()].filter((name) => !from.chains.has(name));
  const gone = [...from.chains.keys()].filter((name) => !to.chains.has(name));
  if (added.length <= most && gone.length <= most) return [to];
  const states: TableProgram[] = [];
  let grown: TableProgram = from;
  const early = calleesFirst(to, new Set(added)).filter((name) => !entersFrom(to, name));
  for (const batch of batches(early, most)) {
    const chains = new Map(grown.chains);
    for (const name of batch) chains.set(name, to.chains.get(name) ?? []);
    grown = { chains, jumps: grown.jumps };
    states.push(grown);
  }
  if (gone.length <= most) return [...states, to];
  let shrinking: TableProgram = { chains: new Map([...to.chains, ...keep(from, gone)]), jumps: to.jumps };
  states.push(shrinking);
  // Callers go before their callees: the kernel deletes no chain that a rule leads to.
  for (const batch of batches(calleesFirst(from, new Set(gone)).toReversed(), most)) {
    const chains = new Map(shrinking.chains);
    for (const name of batch) chains.delete(name);
    shrinking = { chains, jumps: to.jumps };
    states.push(shrinking);
  }
  return [...states.slice(0, -1), to];
}

/**
 * A whole program as text for `iptables-restore --noflush`, in sections of at most `most` new chains. 3,000 Services with 5 endpoints
 * load in 1 s so, and in 37 s as one section per table (iptables-nft 1.8.9).
 */
export function printStaged(program: FamilyProgram, most: number): string {
  return [...stagedSections(program, most)].join('');
}

/** The sections of `printStaged`, each printed on demand. */
export function* stagedSections(program: FamilyProgram, most: number): Generator<string> {
  for (const table of tableNames) {
    const { chains, jumps } = program[table];
    const section = (names: readonly string[], insert: readonly string[]): string => {
      const write = new Map(names.map((name) => [name, chains.get(name) ?? []]));
      return printChange(table, { write, drop: [], remove: [], insert });
    };
    if (chains.size <= most) {
      yield section([...chains.keys()], jumps);
      continue;
    }
    const parts = [...batches(calleesFirst(program[table], new Set(chains.keys())), most)];
    for (const [at, names] of parts.entries()) yield section(names, at === parts.length - 1 ? jumps : []);
  }
}

function keep(table: TableProgram, names: readonly string[]): [string, readonly string[]][] {
  return names.map((name) => [name, table.chains.get(name) ?? []]);
}

/** Whether built-in chains jump to a chain: such a chain comes with the step that changes the rules that packets meet. */
function entersFrom(table: TableProgram, name: string): boolean {
  return table.jumps.some((jump) => targetOf(jump) === name);
}

/** The chains of `names`, each after all those of `names` that its rules lead to. */
function calleesFirst(table: TableProgram, names: ReadonlySet<string>): readonly string[] {
  const order = new Set<string>();
  const met = new Set<string>();
  const visit = (name: string): void => {
    if (met.has(name) || !names.has(name)) return;
    met.add(name);
    for (const rule of table.chains.get(name) ?? []) {
      const target = targetOf(rule);
      if (target !== undefined) visit(target);
    }
    order.add(name);
  };
  for (const name of names) visit(name);
  return [...order];
}

function* batches<T>(list: readonly T[], most: number): Generator<readonly T[]> {
  for (let at = 0; at < list.length; at += most) yield list.slice(at, at + most);
}
