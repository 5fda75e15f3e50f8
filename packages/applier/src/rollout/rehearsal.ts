import { changedChains, type Family, type TableName, type TableProgram, tableNames } from '@sluice/bundle';
import { kindsOf } from '../ipvs/servers.ts';
import type { Plan } from './plan.ts';
import type { Kernel } from './ports.ts';
import { familiesOf, type NodeState, tableOf } from './state.ts';
import { asKnown } from './own.ts';

/**
 * Loads rules for real where no packet meets them, unless it is known that the kernel takes them.
 *
 * `iptables-restore --test` accepts what the kernel then refuses; only a real load tells. Whether a kernel takes a rule depends on
 * its form: the options and extensions, the table, the kind of chain it stands in and the kind of chain it leads to (which decides
 * from which hooks it is reached). It does not depend on addresses, ports, comments or probabilities, whose syntax the grammar has
 * checked. So a change whose forms were all loaded once by this process, or stand in the kernel, is not loaded again; any new form loads
 * the whole program, and so does a new kind of virtual server.
 */
export class Rehearsal {
  readonly #kernel: Kernel;
  readonly #enabled: boolean;
  readonly #taken = new Set<string>();
  #hasLooked = false;

  constructor(kernel: Kernel, enabled: boolean) {
    this.#kernel = kernel;
    this.#enabled = enabled;
  }

  /**
   * Makes sure that the kernel takes every rule that the plan writes.
   * @param active what the kernel holds: it has taken that, and a process that was started anew need not ask again
   * @throws KernelError when it does not take them
   * @throws RehearsalError when it could not be asked
   */
  async ensure(desired: NodeState, change: Plan, active: NodeState): Promise<void> {
    if (this.isKnown(desired, change, active)) return;
    await this.#kernel.rehearse(asKnown(desired, this.#kernel));
    this.#remember(desired);
  }

  /** Whether `ensure` has nothing to ask, so that it takes no time. */
  isKnown(desired: NodeState, change: Plan, active: NodeState): boolean {
    if (!this.#enabled || this.#knows(desired, change)) return true;
    if (this.#hasLooked) return false;
    this.#hasLooked = true;
    this.#remember(active);
    return this.#knows(desired, change);
  }

  #remember(state: NodeState): void {
    for (const family of familiesOf(state)) {
      for (const table of tableNames)
        for (const form of formsOfTable(family, table, tableOf(state, family, table))) this.#taken.add(form);
    }
    for (const kind of kindsOf(state.ipvs)) this.#taken.add(kind);
  }

  #knows(desired: NodeState, change: Plan): boolean {
    if ([...kindsOf(desired.ipvs)].some((kind) => !this.#taken.has(kind))) return false;
    return change.touched.every(({ family, table, change: part }) => {
      const program = tableOf(desired, family, table);
      const rules = changedChains(part).flatMap((name) => program.chains.get(name) ?? []);
      return [...rules, ...part.insert].every((rule) => this.#taken.has(formOf(family, table, rule)));
    });
  }
}

function* formsOfTable(family: Family, table: TableName, program: TableProgram): Generator<string> {
  for (const jump of program.jumps) yield formOf(family, table, jump);
  for (const rules of program.chains.values()) for (const rule of rules) yield formOf(family, table, rule);
}

/** Options whose values are part of the form. */
const named: ReadonlySet<string> = new Set([
  '-A',
  '-j',
  '-g',
  '-m',
  '-p',
  '--ctstate',
  '--src-type',
  '--dst-type',
  '--reject-with',
]);

/** A rule without what differs between Services: `KUBE-SVC-NPX46M4PTMTKRN6Y` is `KUBE-SVC`, a value is nothing. */
export function formOf(family: Family, table: TableName, rule: string): string {
  const words = rule.match(/"[^"]*"|\S+/g) ?? [];
  const kept = words.filter((word, index) => word === '!' || word.startsWith('-') || named.has(words[index - 1] ?? ''));
  return [
    family,
    table,
    ...kept.map((word) => word.replace(/^((?:KUBE|SLU|SLUICE)-[A-Z]{1,3})-[A-Z2-7]{16}(\.[0-9a-z]{2})?$/, '$1')),
  ].join(' ');
}
