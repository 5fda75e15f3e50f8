/**
 * Which kernel runs test files that need one of their own: one in user mode, which is several times as fast as the emulated guest, or
 * that guest, which alone has nf_tables. `vitest.config.ts` gives each of the two test files below, which boot them, its part.
 */

export const userModeBooter = 'test/vm/user-mode.test.ts';
/** No `seconds.json` has it, so it is last: beside other files the emulation is so slow that trials of the switch run out. */
export const emulatedBooter = 'test/vm/emulated.test.ts';

const inside = (name: string): string => `test/vm/inside/${name}.test.ts`;
const userMode: ReadonlySet<string> = new Set(['modes', 'observed', 'parity'].map(inside));
/** On nf_tables in `--all`. */
const both: ReadonlySet<string> = new Set(['modes'].map(inside));

/** What each of the two runs, by the name of the variable in which it gets its files. */
export interface GuestFiles {
  readonly SLUICE_USER_MODE_FILES: readonly string[];
  readonly SLUICE_GUEST_FILES: readonly string[];
}

/**
 * Shares out the files of `inside` that were selected, and those of other folders for which the machine's own kernel is not enough.
 * @param named paths, or prefixes of paths, on the command line
 * @param isAll whether the tier of the run has the emulated guest
 */
export function guestFiles(files: readonly string[], named: readonly string[], isAll: boolean): GuestFiles {
  const isWhole = (booter: string, otherwise: boolean): boolean =>
    named.length === 0 ? otherwise : named.includes(booter);
  const contract = 'test/netns/kernel.test.ts';
  const isEmulated = isWhole(emulatedBooter, isAll);
  const inUserMode = isWhole(emulatedBooter, false) ? [] : files.filter((file) => userMode.has(file));
  // What else runs in each mode does so in mode ipvs there.
  const ofIpvs = inUserMode.includes(inside('parity'))
    ? ['surroundings/surroundings', 'netns/node-promises', ...(isAll ? ['netns/health-port', 'netns/vip'] : [])].map(
        (name) => `test/${name}.test.ts`,
      )
    : [];
  return {
    SLUICE_USER_MODE_FILES: [...(isWhole(userModeBooter, true) ? [contract, ...ofIpvs] : []), ...inUserMode],
    SLUICE_GUEST_FILES: isWhole(userModeBooter, false)
      ? []
      : [
          ...(isEmulated ? [contract] : []),
          ...files.filter((file) => !userMode.has(file) || (isEmulated && both.has(file))),
        ],
  };
}
