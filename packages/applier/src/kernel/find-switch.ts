import { switches } from '@sluice/bundle';
import { limits } from '../limits.ts';
import type { Switch } from '../rollout/ports.ts';
import { inScratchNamespace } from './rehearse.ts';
import type { Run } from './run.ts';
import { LinuxSwitch } from './switch.ts';
import { findTool, type Tools } from './tools.ts';

/**
 * The switch of this machine, where it has ipset and its rules can ask sets (`xt_set`). A rule is loaded for real to find out: the
 * tool reads one also where the kernel then refuses it.
 */
export async function findSwitch(tools: Tools, run: Run): Promise<Switch | undefined> {
  const ipset = findTool('ipset');
  const shell = findTool('sh');
  if (ipset === undefined || shell === undefined) return undefined;
  const script = `echo 'create ${switches.filter} list:set timeout 30' | ${ipset} restore && exec "$@"`;
  const text = `*filter\n-A OUTPUT -m set --match-set ${switches.filter} src -j ACCEPT\nCOMMIT\n`;
  for (const family of Object.values(tools.families)) {
    const load = [shell, '-c', script, shell, family.restore, '--noflush', '-w', String(limits.xtablesLockSeconds)];
    try {
      await inScratchNamespace('ipset and -m set in a scratch namespace', load, text, run);
    } catch {
      return undefined;
    }
  }
  return new LinuxSwitch(ipset, run);
}
