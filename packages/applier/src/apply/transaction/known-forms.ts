import { changedChains, type Family, type TableName, type TableProgram, tableNames } from '@sluice/netfilter';
import { kindsOf } from '../../ports/ipvs/servers.ts';
import type { Rehearsal, Touched } from '../../ports/rehearsal.ts';
import type { Kernel } from '../../ports/kernel.ts';
import { familiesOf, type NodeState, tableOf } from '../../ports/node-state.ts';
import { nodePlaneOf } from '../planes/planes.ts';
import { asKnown } from '../plan/ownership.ts';
import { formOf } from './forms.ts';
import { nftForms } from './forms-nft.ts';
import { rehearsalSample } from './rehearsal-sample.ts';

/**
 * Loads rules in a scratch namespace, where no packet meets them, unless the kernel is known to take them.
 *
 * `iptables-restore --test` accepts rules that the kernel then refuses; only a real load finds out. Whether a kernel takes a rule depends
 * on its form: the options and extensions, the table, the kind of its chain and the kind of chain that it leads to (which decides from
 * which hooks it is reached). It does not depend on addresses, ports, comments or probabilities, whose syntax the grammar has checked. So
 * a change whose forms this process has loaded before, or that are in the kernel, is not loaded again; any new form, and any new kind of
 * virtual server, loads the program: one rule or frontend of each form (`rehearsalSample`), in layout `flat` all rules.
 */
export class KnownForms implements Rehearsal {
  readonly #kernel: Kernel;
  readonly #enabled: boolean;
  readonly #accepted = new Set<string>();
  #hasReadActive = false;

  constructor(kernel: Kernel, enabled: boolean) {
    this.#kernel = kernel;
    this.#enabled = enabled;
  }

  async ensure(desired: NodeState, touched: readonly Touched[], active: NodeState): Promise<void> {
    if (this.isKnown(desired, touched, active)) return;
    const whole = asKnown(desired, this.#kernel);
    const loaded = nodePlaneOf(whole).failsHarmlessly ? rehearsalSample(whole) : whole;
    await this.#kernel.rehearse(loaded);
    this.#remember(loaded);
  }

  isKnown(desired: NodeState, touched: readonly Touched[], active: NodeState): boolean {
    if (!this.#enabled || this.#knows(desired, touched, active)) return true;
    if (this.#hasReadActive) return false;
    this.#hasReadActive = true;
    this.#remember(active);
    return this.#knows(desired, touched, active);
  }

  #remember(state: NodeState): void {
    for (const family of familiesOf(state)) {
      for (const table of tableNames)
        for (const form of formsOfTable(family, table, tableOf(state, family, table))) this.#accepted.add(form);
    }
    for (const kind of kindsOf(state.ipvs)) this.#accepted.add(kind);
    for (const form of nftForms(state.nft)) this.#accepted.add(form);
  }

  /** Forms that the active state has, too, are in the kernel. */
  #knows(desired: NodeState, touched: readonly Touched[], active: NodeState): boolean {
    if ([...kindsOf(desired.ipvs), ...nftForms(desired.nft, active.nft)].some((form) => !this.#accepted.has(form)))
      return false;
    return touched.every(({ family, table, change: part }) => {
      const program = tableOf(desired, family, table);
      const rules = changedChains(part).flatMap((name) => program.chains.get(name) ?? []);
      return [...rules, ...part.insert].every((rule) => this.#accepted.has(formOf(family, table, rule)));
    });
  }
}

function* formsOfTable(family: Family, table: TableName, program: TableProgram): Generator<string> {
  for (const jump of program.jumps) yield formOf(family, table, jump);
  for (const rules of program.chains.values()) for (const rule of rules) yield formOf(family, table, rule);
}
