/** A dangerous line of a function with a mistake. `./dev mutants` shows that a test detects it. */
export interface Mutant {
  /** Below the checkout. */
  readonly file: string;
  /** Text that occurs exactly once in the file. */
  readonly from: string;
  readonly to: string;
  /** The effect on a node. */
  readonly harm: string;
  /** Prefixes of the test files that run first, below the checkout. */
  readonly tests: readonly string[];
}

const applier = 'packages/applier/src';
const transaction = [
  'apply/transaction',
  'apply/reconcile',
  'apply/recovery',
  'apply/endpoints',
  'commands',
  'daemon',
].map((folder) => `${applier}/${folder}/`);

/** Of the functions whose mistakes take a node off the network: at least one mutant each. */
export const mutants: readonly Mutant[] = [
  {
    file: `${applier}/apply/transaction/transaction.ts`,
    from: '    await deadman.renewLate();\n    await journal.commit(\n',
    to: '    void deadman.renewLate();\n    await journal.commit(\n',
    harm: 'the commit record is written while the dead-man switch may have expired',
    tests: transaction,
  },
  {
    file: `${applier}/apply/transaction/transaction.ts`,
    from: '    await deadman.renewLate();\n',
    to: '',
    harm: 'a release is committed after the dead-man switch has expired',
    tests: transaction,
  },
  {
    file: `${applier}/apply/transaction/transaction.ts`,
    from: "changeKind === 'release' ? (given?.before ?? allPass(probes)) : []",
    to: '[]',
    harm: 'a probe that failed before counts against the release',
    tests: transaction,
  },
  {
    file: `${applier}/apply/transaction/transaction.ts`,
    from: "changeKind === 'release' ? await probation.run() : undefined",
    to: 'undefined',
    harm: 'a release has no probation',
    tests: transaction,
  },
  {
    file: `${applier}/apply/transaction/deadman.ts`,
    from: 'this.#seconds * 1000 - this.#marginMs) return;',
    to: 'this.#seconds * 1000 + this.#marginMs) return;',
    harm: 'a stopped process turns the switch on again after the dead-man switch expired',
    tests: transaction,
  },
  {
    file: `${applier}/apply/transaction/deadman.ts`,
    from: '    this.#renewedMs = beforeMs;',
    to: '    this.#renewedMs = clock.bootMs();',
    harm: 'a slow tool makes a renewal look younger than it is in the kernel',
    tests: transaction,
  },
  {
    file: `${applier}/apply/admission/admit.ts`,
    from: '    ...lackingNeeds(resolved, facts),\n',
    to: '',
    harm: 'a node applies a bundle that needs missing features',
    tests: [`${applier}/apply/plan/`, `${applier}/apply/transaction/`],
  },
  {
    file: `${applier}/apply/admission/admit.ts`,
    from: 'if (resolved.cluster.complete || options.allowPartial) return [];',
    to: 'return [];',
    harm: 'a bundle from partial input removes Services',
    tests: [`${applier}/apply/plan/`, `${applier}/apply/transaction/`],
  },
  {
    file: `${applier}/apply/endpoints/change-kind.ts`,
    from: " || !sameSettings(from, desired)) return { changeKind: 'release' };",
    to: ") return { changeKind: 'release' };",
    harm: 'sysctls change without probation',
    tests: [`${applier}/apply/endpoints/change-kind`, 'test/change-kinds', 'test/endpoint-keys'],
  },
  {
    file: 'packages/netfilter/src/services/plain-rules.ts',
    from: 'sameJumps(a, b) &&',
    to: '',
    harm: 'jumps of built-in chains change without probation',
    tests: ['packages/netfilter/src/services', `${applier}/apply/endpoints/change-kind`],
  },
  {
    file: `${applier}/apply/recovery/decide.ts`,
    from: "if (open.phase === 'committed') return { do: 'finish' };",
    to: '',
    harm: 'a committed release is rolled back after a crash',
    tests: transaction,
  },
  {
    file: `${applier}/apply/recovery/decide.ts`,
    from: " && !open.update && defaults.includes('new')",
    to: " && defaults.includes('new')",
    harm: 'an endpoint update in probation halts the node after a crash',
    tests: transaction,
  },
  {
    file: `${applier}/apply/recovery/decide.ts`,
    from: "!open.update && defaults.includes('new')",
    to: "!open.update && defaults.includes('foreign')",
    harm: 'rules that no journal entry confirms are taken for those of an open transaction',
    tests: transaction,
  },
  {
    file: `${applier}/apply/transaction/roll-back.ts`,
    from: "  await kernel.switch?.off('nat');\n  await clock.sleep(limits.narrowPauseMs);\n  await kernel.switch?.off('filter');",
    to: "  await kernel.switch?.off('filter');\n  await clock.sleep(limits.narrowPauseMs);\n  await kernel.switch?.off('nat');",
    harm: 'packets that nat sent to the new program meet the old filter',
    tests: transaction,
  },
  {
    file: `${applier}/apply/transaction/roll-back.ts`,
    from: '    if (isBySwitch) await forgetAfter(newFlows, ports);\n',
    to: '',
    harm: 'connections stay on the endpoints of a release that was rolled back',
    tests: transaction,
  },
  {
    file: `${applier}/apply/transaction/finish.ts`,
    from: '  if (needsPin) await pin(ports);\n',
    to: '',
    harm: 'the dead-man switch fires between the defaults of two tables',
    tests: transaction,
  },
  {
    file: `${applier}/state/slots.ts`,
    from: '(sequence % slots) * slotBytes',
    to: '0 * slotBytes',
    harm: 'a write that is torn destroys the only record',
    tests: [`${applier}/state/`],
  },
  {
    file: `${applier}/state/slots.ts`,
    from: '  if (digestOf(sequence, body) !== digest) return undefined;\n',
    to: '',
    harm: 'a torn record is accepted',
    tests: [`${applier}/state/`],
  },
  {
    file: `${applier}/inbox/release-gate.ts`,
    from: "    if ('problems' in signers) return { kind: 'refused', problems: signers.problems };\n    return this.#acceptNew",
    to: "    if ('problems' in signers) return this.#acceptNew(seal, digest, accepted, { principals: [] });\n    return this.#acceptNew",
    harm: 'a release without signatures is accepted',
    tests: [`${applier}/inbox/`],
  },
  {
    file: `${applier}/apply/plan/stages.ts`,
    from: '  const early = calleesFirst(to, new Set(added))',
    to: '  const early = calleesFirst(to, new Set(added)).toReversed()',
    harm: 'a payload refers to a missing chain',
    tests: [`${applier}/apply/plan/`],
  },
  {
    file: 'packages/netfilter/src/link/tree/dispatch.ts',
    from: '${conditions[kind]}-j ${tree.chain.name}',
    to: '${conditions[kind]}-g ${tree.chain.name}',
    harm: 'packets to unknown addresses never reach node ports',
    tests: ['packages/netfilter/src/link/'],
  },
  {
    file: 'packages/renderer/src/render/compile/iptables.ts',
    from: 'append(index, chance(names.length - index))',
    to: 'append(index, chance(names.length))',
    harm: 'endpoints get unequal shares of the connections',
    tests: ['packages/renderer/src/render/compile/'],
  },
];
