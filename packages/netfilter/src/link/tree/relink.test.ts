import { atTier, runs } from '@sluice/testing';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { ResolvedSection } from '../section.ts';
import type { FamilyProgram, TableProgram } from '../program.ts';
import { baseFiles, serviceFile, type ServiceSpec, services } from './cluster.fixture.ts';
import { settledProgram } from './flatten.ts';
import { linkTree } from './link.ts';
import { TreeLinker } from './linker.ts';

/** Printed by fast-check when a property fails. */
type File = readonly ResolvedSection[];
const { first, last } = baseFiles();

/** Every chain with its rules, sorted. */
const spell = ({ filter, nat }: FamilyProgram): unknown =>
  [filter, nat].map(({ chains, jumps }) => [Object.fromEntries(chains), jumps]);

/** A change of one Service. */
const edits = fc.record({
  service: fc.nat(40),
  kind: fc.constantFrom('endpoints', 'endpoints', 'endpoints', 'port', 'comes or goes', 'address of the next'),
  endpoints: fc.oneof({ weight: 9, arbitrary: fc.integer({ min: 1, max: 5 }) }, fc.constantFrom(0, 33, 60)),
});
type Edit = typeof edits extends fc.Arbitrary<infer T> ? T : never;

/** The program in the kernel when the next version is linked. */
const kernels = fc.oneof(
  { weight: 6, arbitrary: fc.constant({ kernel: 'the last program' } as const) },
  fc.constant({ kernel: 'the first program' } as const),
  fc.constant({ kernel: 'nothing' } as const),
  fc.record({ kernel: fc.constant('others under some names' as const), every: fc.integer({ min: 2, max: 9 }) }),
);
type KernelChoice = typeof kernels extends fc.Arbitrary<infer T> ? T : never;

/** A program in which some names have other rules. */
function withOthers({ filter, nat }: FamilyProgram, every: number): FamilyProgram {
  const table = ({ chains, jumps }: TableProgram): TableProgram => ({
    chains: new Map(
      [...chains].map(([name, rules], at) =>
        name.includes('.') && at % every === 0 ? [name, [`-A ${name} -j ACCEPT`]] : [name, rules],
      ),
    ),
    jumps,
  });
  return { filter: table(filter), nat: table(nat) };
}

/** Services over time; the files of unchanged ones keep their identity. */
class History {
  readonly #specs: (ServiceSpec | undefined)[];
  readonly #files: (File | undefined)[];

  constructor(specs: readonly ServiceSpec[]) {
    this.#specs = [...specs];
    this.#files = specs.map((spec, at) => serviceFile(at, spec, 'ipv4'));
  }

  edit({ service, kind, endpoints }: Edit): void {
    const at = service % Math.max(1, this.#specs.length);
    const spec = this.#specs[at];
    if (!spec) return;
    const other = kind === 'address of the next' ? (this.#specs[(at + 1) % this.#specs.length] ?? spec) : spec;
    const { protocol, cluster } = other;
    const port = kind === 'port' ? (spec.port % 65_000) + 1 : other.port;
    const edited = { ...spec, protocol, cluster, port, endpoints };
    this.#specs[at] = edited;
    const isThere = kind !== 'comes or goes' || this.#files[at] === undefined;
    this.#files[at] = isThere ? serviceFile(at, edited, 'ipv4') : undefined;
  }

  get files(): readonly File[] {
    return [first, ...this.#files.filter((file) => file !== undefined), last];
  }
}

function kernelProgram(choice: KernelChoice, programs: readonly FamilyProgram[]): FamilyProgram | undefined {
  const newest = programs.at(-1);
  if (choice.kernel === 'nothing' || !newest) return undefined;
  if (choice.kernel === 'others under some names') return withOthers(newest, choice.every);
  return choice.kernel === 'the last program' ? newest : programs[0];
}

test('after random histories a relinked program equals one linked from all files', () => {
  let again = 0;
  fc.assert(
    fc.property(
      services('ipv4'),
      fc.array(fc.tuple(fc.array(edits, { minLength: 1, maxLength: 3 }), kernels), { minLength: 1, maxLength: 12 }),
      (specs, steps) => {
        const history = new History(specs);
        const linker = new TreeLinker();
        const programs = [linker.link(history.files, { family: 'ipv4' }).program];
        for (const [changes, choice] of steps) {
          for (const change of changes) history.edit(change);
          const taken = kernelProgram(choice, programs);
          const options = { family: 'ipv4', ...(taken ? { taken } : {}) } as const;
          const made = linker.relink(history.files, options);
          if (made) again++;
          const program = made ?? linker.link(history.files, options).program;
          const whole = linkTree(history.files, options);
          expect(spell(program)).toEqual(spell(settledProgram(whole.program)));
          programs.push(program);
        }
      },
    ),
    { ...runs(25), endOnFailure: true },
  );
  // Otherwise both programs would be linked from all files.
  expect(again).toBeGreaterThan(atTier({ quick: 0, test: 10 }));
});

test('keeps the order of two Services with one address when another file comes where one of them was', () => {
  const at = (cluster: string): ServiceSpec => ({ protocol: 'tcp', port: 80, cluster, endpoints: 1, local: false });
  const [goes, old, stays, fresh, comes, end] = [1, 7, 7, 7, 2, 3].map((host, number) =>
    serviceFile(number, at(`10.96.0.${host}`), 'ipv4'),
  ) as [File, File, File, File, File, File];
  const linker = new TreeLinker();
  linker.link([first, goes, old, stays, end, last], { family: 'ipv4' });
  const after = [first, stays, fresh, comes, end, last];
  const made = linker.relink(after, { family: 'ipv4' });
  expect(made && spell(made)).toEqual(spell(settledProgram(linkTree(after, { family: 'ipv4' }).program)));
});
