import type { NftState } from '@sluice/netfilter';
import { decodeTable } from '../../nftables/decode.ts';
import type { ObservedNft } from '../../nftables/observed.ts';
import { type ServiceLine, sideBySide } from './side-by-side.ts';

/**
 * The frontends of a Service in mode nftables, in the kernel and in a generation, side by side. Slots and halves do not count, so the lines
 * are those of a state: `10.96.0.10 . tcp . 80 endpoint 10.244.1.5 . 8080`.
 * @param state of the generation; undefined in other modes
 * @param observed undefined: the kernel has no table
 * @param keys of the Service's frontends
 */
export function frontendLinesOf(
  state: NftState | undefined,
  observed: ObservedNft | undefined,
  keys: ReadonlySet<string>,
): readonly ServiceLine[] {
  const kernel = observed && decodeTable(observed, state);
  return sideBySide(frontendLines(kernel, keys), frontendLines(state, keys));
}

function frontendLines(state: NftState | undefined, keys: ReadonlySet<string>): readonly string[] {
  return [...keys].flatMap((key) => {
    const lines = state?.frontends.get(key)?.toSorted();
    // A frontend without a line serves nothing of its own, but it is there.
    return lines?.length === 0 ? [key] : (lines ?? []).map((line) => `${key} ${line}`);
  });
}
