import {
  fileDigest,
  type FamilyProgram,
  printServers,
  printSets,
  printSysctl,
  type TableProgram,
} from '@sluice/bundle';
import * as v from 'valibot';
import { ipvsFromText, ipvsToText, printAddresses } from '../ipvs/text.ts';
import { limits } from '../limits.ts';
import { printStaged } from '../rollout/stages.ts';
import type { Generation } from '../rollout/ports.ts';
import { familiesOf, type NodeState } from '../rollout/state.ts';
import { StateError, sysctlMap } from './record.ts';

/**
 * A generation on disk: `program.json`, which sluiced reads, and the same as native text, which a person loads by hand in an
 * emergency (`iptables-restore --noflush < iptables.rules`, `sysctl -p sysctl.conf`; in mode ipvs first `ipset restore < ipset.rules`,
 * then `ipvsadm -R < ipvs.rules` and `ip -batch addresses.batch`).
 */
const table = v.strictObject({
  chains: v.array(v.tuple([v.string(), v.array(v.string())])),
  jumps: v.array(v.string()),
});
const family = v.strictObject({ filter: table, nat: table });
const program = v.strictObject({
  schema: v.literal(1),
  number: v.number(),
  version: v.string(),
  families: v.strictObject({ ipv4: v.optional(family), ipv6: v.optional(family) }),
  sysctls: v.record(v.string(), v.number()),
  conntrackHashSize: v.optional(v.number()),
  ipvs: v.optional(
    v.strictObject({
      ipset: v.string(),
      ipvs: v.string(),
      addresses: v.array(v.string()),
      excludeCIDRs: v.array(v.string()),
    }),
  ),
});

const fileOf = { ipv4: 'iptables.rules', ipv6: 'ip6tables.rules' } as const;

/** The files of a generation, by name. The digest tells a damaged file from a good one. */
export function printGeneration(generation: Generation): Readonly<Record<string, string>> {
  const files: Record<string, string> = {};
  const { state } = generation;
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
  files['program.json'] = programText(generation);
  files['program.sha256'] = `${fileDigest(files['program.json'])}  program.json\n`;
  return files;
}

function programText({ number, version, state }: Generation): string {
  const plain = ({ chains, jumps }: TableProgram): unknown => ({ chains: [...chains], jumps });
  const families = Object.fromEntries(
    familiesOf(state).map((name) => {
      const rules = state.families[name] as FamilyProgram;
      return [name, { filter: plain(rules.filter), nat: plain(rules.nat) }];
    }),
  );
  const sysctls = Object.fromEntries(state.sysctls);
  const { conntrackHashSize } = state;
  const ipvs = state.ipvs && ipvsToText(state.ipvs);
  return `${JSON.stringify({ schema: 1, number, version, families, sysctls, conntrackHashSize, ipvs })}\n`;
}

/**
 * Reads `program.json`.
 * @throws StateError when it is not what was written
 */
export function readGeneration(path: string, text: string, sums: string): Generation {
  const damaged = (why: string): StateError =>
    new StateError(
      'NODE_STATE_INVALID',
      `${path} ${why}`,
      '`sluiced history` lists the generations that can be used instead',
    );
  if (sums !== `${fileDigest(text)}  program.json\n`) throw damaged('is not what was written');
  const parsed = v.safeParse(program, JSON.parse(text));
  if (!parsed.success) throw damaged('has another form');
  const { number, version, families, sysctls, conntrackHashSize } = parsed.output;
  const tableFrom = ({ chains, jumps }: v.InferOutput<typeof table>): TableProgram => ({
    chains: new Map(chains),
    jumps,
  });
  const familyFrom = (f: v.InferOutput<typeof family>): FamilyProgram => ({
    filter: tableFrom(f.filter),
    nat: tableFrom(f.nat),
  });
  const virtual = parsed.output.ipvs && ipvsFromText(parsed.output.ipvs);
  if (typeof virtual === 'string') throw damaged(virtual);
  const state: NodeState = {
    families: {
      ...(families.ipv4 ? { ipv4: familyFrom(families.ipv4) } : {}),
      ...(families.ipv6 ? { ipv6: familyFrom(families.ipv6) } : {}),
    },
    sysctls: sysctlMap(sysctls),
    ...(conntrackHashSize === undefined ? {} : { conntrackHashSize }),
    ...(virtual ? { ipvs: virtual } : {}),
  };
  return { number, version, state };
}
