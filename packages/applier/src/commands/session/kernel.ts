import type { SluicedConfig } from '../../config.ts';
import type { DiskJournal } from '../../state/journal.ts';
import type { ChangeCount } from '../../kernel/changes/change-count.ts';
import { switchOf } from '../../kernel/linux/find-switch.ts';
import { knowsBpf } from '../../kernel/knows-bpf.ts';
import { LinuxKernel } from '../../kernel/linux/linux.ts';
import type { NftWriter } from '../../kernel/nft/nft-writer.ts';
import type { Run } from '../../kernel/command.ts';
import { placeOf, rehearser } from '../../kernel/scratch/rehearse.ts';
import { procTunables } from '../../kernel/sysctl.ts';
import type { Tools } from '../../kernel/tools.ts';
import type { Report } from '../../ports/ports.ts';

/** The kernel of this machine. */
interface OpenedKernel {
  readonly kernel: LinuxKernel;
  /** The same with the tools of another rule store. */
  readonly kernelOf: (tools: Tools) => Promise<LinuxKernel>;
  /** Whether one switch moves packets to new rules, in layout `tree`. */
  readonly hasSwitch: boolean;
}

interface KernelParts {
  readonly tools: Tools;
  readonly run: Run;
  readonly journal: DiskJournal;
  readonly report: Report;
  /** See `LinuxKernel`. */
  readonly nftWriter: NftWriter | undefined;
  readonly count: ChangeCount | undefined;
}

/** Finds out what the kernel can do. */
export async function openKernel(
  { rehearse: policy }: SluicedConfig,
  { tools, run, journal, report, nftWriter, count }: KernelParts,
): Promise<OpenedKernel> {
  const isFlipping = journal.open?.flip === 'switch';
  const switchStates = await switchOf(tools, run, placeOf(policy) === 'namespace', isFlipping);
  const rehearse = rehearser(policy, tools, run, report);
  const kernelOf = async (its: Tools): Promise<LinuxKernel> =>
    // In layout `flat`, too: the active generation may have the other layout.
    new LinuxKernel(its, run, procTunables, switchStates, rehearse, await knowsBpf(its, run), nftWriter, count);
  return { kernel: await kernelOf(tools), kernelOf, hasSwitch: switchStates !== undefined };
}
