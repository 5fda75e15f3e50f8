import { tableLine } from '@sluice/netfilter';
import { nftProblem } from '../../apply/admission/kernel-context.ts';
import type { Run } from '../../kernel/command.ts';
import { LinuxKernel } from '../../kernel/linux/linux.ts';
import { knowsOwnership } from '../../kernel/nft/nft-owner.ts';
import { procTunables } from '../../kernel/sysctl.ts';
import { findTool, type Tools } from '../../kernel/tools.ts';
import type { NodeState } from '../../ports/node-state.ts';
import { bad, good, note, type PreflightFinding } from './finding.ts';

/**
 * Mode nftables needs no other tool, and its switch is part of the table.
 * @param rehearse loads a state where no packet meets it
 */
export async function nftFindings(
  tools: Tools,
  run: Run,
  rehearse: (state: NodeState) => Promise<readonly PreflightFinding[]>,
): Promise<readonly PreflightFinding[]> {
  const what = 'mode nftables';
  const problem = await nftProblem(new LinuxKernel(tools, run, procTunables));
  if (problem) return [bad(what, problem.message, problem.hint)];
  const { stdout } = await run({ file: findTool('nft') ?? 'nft', args: ['--version'] });
  const settings = [tableLine({ detector: 'address', masqueradeAll: false })];
  const empty: NodeState = { families: {}, sysctls: new Map(), nft: { settings, frontends: new Map() } };
  return [good(what, stdout.trim()), await protectionFinding(run), ...(await rehearse(empty))];
}

/** Without the flags of the table `sluiced` repairs what other programs change, and cannot prevent it. */
async function protectionFinding(run: Run): Promise<PreflightFinding> {
  const what = "protection of mode nftables' table";
  if (await knowsOwnership(findTool('nft') ?? 'nft', run)) return good(what, 'only sluiced can change it');
  return note(what, 'none: repaired after changes', 'install nft 1.1.0 and Linux 6.9 or newer, to prevent them');
}
