// @module-tag all
import { KernelError } from '../../../packages/applier/src/ports/failure.ts';
import { expect, test } from 'vitest';
import { loadOf } from '../../../packages/applier/src/kernel/scratch/load.ts';
import { rehearseInNamespace } from '../../../packages/applier/src/kernel/scratch/namespace.ts';
import { rehearseInUnit } from '../../../packages/applier/src/kernel/scratch/unit.ts';
import { runChildren } from '../../../packages/applier/src/kernel/run.ts';
import { detectTools } from '../../../packages/applier/src/kernel/tools.ts';
import { exampleStates, RehearsalUnit } from '../../netns/rehearsal.ts';

/** Rehearsals of mode ipvs, on a kernel with IPVS: sets and virtual servers belong to the network namespace, too. */

/** An emulated guest is slow. */
const timeout = 180_000;

const [good, withoutSets] = exampleStates('tree').flatMap(([, state]) =>
  state.ipvs ? [state, { ...state, ipvs: { ...state.ipvs, sets: new Map() } }] : [],
);
if (!good || !withoutSets) throw new Error('no example is in mode ipvs');

test.each(['nft', 'legacy'] as const)(
  'the unit loads sets, virtual servers and rules, and refuses rules without their sets, on %s',
  { timeout },
  async (backend) => {
    await using unit = await RehearsalUnit.listen();
    expect(loadOf(good, backend).servers).toContain('-A -t ');
    await rehearseInUnit(unit.path, loadOf(good, backend));
    const refused = rehearseInUnit(unit.path, loadOf(withoutSets, backend));
    await expect(refused).rejects.toBeInstanceOf(KernelError);
    await expect(refused).rejects.toThrow(/iptables-restore in a scratch namespace: .*KUBE-/);
    expect(unit.log).toContain('the rules were loaded in a scratch namespace\npart ipv4 was refused');
  },
);

test('a namespace of a child does the same', { timeout }, async () => {
  const run = runChildren();
  const tools = await detectTools('nft', run);
  await rehearseInNamespace(loadOf(good, 'nft'), tools, run);
  await expect(rehearseInNamespace(loadOf(withoutSets, 'nft'), tools, run)).rejects.toBeInstanceOf(KernelError);
});
