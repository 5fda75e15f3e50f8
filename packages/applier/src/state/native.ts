import { printServers, printSets, printSysctl } from '@sluice/netfilter';
import { printAddresses } from '../ipvs/text.ts';
import { limits } from '../limits.ts';
import { printStaged } from '../plan/stages.ts';
import { familiesOf, type NodeState } from '../ports/node-state.ts';

const fileOf = { ipv4: 'iptables.rules', ipv6: 'ip6tables.rules' } as const;

/**
 * The rules of a node as native text, by file name, which an operator can load by hand in an emergency: `iptables-restore --noflush <
 * iptables.rules`, `sysctl -p sysctl.conf`; in mode ipvs first `ipset restore < ipset.rules`, then `ipvsadm -R < ipvs.rules` and `ip -batch
 * addresses.batch`.
 */
export function nativeFiles(state: NodeState): Readonly<Record<string, string>> {
  const files: Record<string, string> = {};
  for (const name of familiesOf(state)) {
    const rules = state.families[name];
    if (rules) files[fileOf[name]] = printStaged(rules, limits.chainsPerPayloadMax);
  }
  if (state.ipvs) {
    files['ipset.rules'] = printSets(state.ipvs);
    files['ipvs.rules'] = printServers(state.ipvs);
    files['addresses.batch'] = printAddresses(state.ipvs);
  }
  files['sysctl.conf'] = [...state.sysctls].map(([key, value]) => `${printSysctl({ key, value })}\n`).join('');
  return files;
}
