import { type Family, printCreate, printNft, printProgram } from '@sluice/netfilter';
import { kindsOf } from '../../ports/ipvs/servers.ts';
import type { NodeIpvs } from '../../ports/ipvs/values.ts';
import { limits } from '../../limits.ts';
import { stagedSections } from '../../apply/plan/stages.ts';
import { familiesOf, type NodeState } from '../../ports/node-state.ts';
import type { RuleStore } from '../tools.ts';

/** The texts that a rehearsal loads, and their rule store. The tool for each text follows from that alone. */
export interface RehearsalLoad {
  readonly backend: RuleStore;
  /** For `ipset restore`: the sets that rules match, empty, because a namespace has its own sets. `''` outside of mode ipvs. */
  readonly sets: string;
  /** For `ipvsadm -R`: one virtual server of each kind. `''` outside of mode ipvs. */
  readonly servers: string;
  /** For `iptables-restore --noflush` of each family, section by section: 10,000 Services are 25 MB, too much for one text. */
  readonly rules: ReadonlyMap<Family, Iterable<string>>;
  /** For `nft -f`: the whole table. `''` outside of mode nftables. */
  readonly nft: string;
}

/** The load that shows whether a kernel accepts a state. */
export function loadOf(state: NodeState, backend: RuleStore): RehearsalLoad {
  const rules = new Map<Family, Iterable<string>>();
  for (const family of familiesOf(state)) {
    const program = state.families[family];
    if (!program) continue;
    rules.set(
      family,
      backend === 'nft' ? stagedSections(program, limits.chainsPerPayloadMax) : [printProgram(program)],
    );
  }
  const { ipvs } = state;
  const nft = state.nft ? inShortLines(printNft(state.nft)) : '';
  return { backend, sets: ipvs ? emptySets(ipvs) : '', servers: ipvs ? sampleServers(ipvs) : '', rules, nft };
}

/** A request has no line longer than a rule may be. */
function inShortLines(text: string): string {
  return text.replaceAll(/^(add element inet sluice \S+ \{ )(.{900,}) \}$/gm, (_line, start: string, all: string) => {
    const elements = all.split(', ');
    const lines: string[] = [];
    for (let at = 0; at < elements.length; at += elementsPerLine)
      lines.push(`${start}${elements.slice(at, at + elementsPerLine).join(', ')} }`);
    return lines.join('\n');
  });
}

/** The longest element has some 120 characters. */
const elementsPerLine = 7;

function emptySets({ sets }: NodeIpvs): string {
  return [...sets.values()].map((set) => `${printCreate(set)}\n`).join('');
}

/** One virtual server for each kind, at addresses for documentation (RFC 5737, RFC 3849). */
function sampleServers(ipvs: NodeIpvs): string {
  const lines = [...kindsOf(ipvs)].map((kind, index) => {
    const isIPv6 = kind.includes('-M 128');
    return `-A -t ${isIPv6 ? '[2001:db8::1]' : '198.51.100.1'}:${index + 1}${kind}\n`;
  });
  return lines.join('');
}
