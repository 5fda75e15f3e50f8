// @module-tag all
import { expect, test, vi } from 'vitest';
import { named, wildRules, type WildRules } from '../field/wild.ts';
import { currentOfTier } from './binaries.ts';
import { ObservedKubeProxy, parity } from './observed-node.ts';
import { clusterOfSettings } from './planted.ts';
import { needPrograms } from './programs.ts';
import { nftablesSettings, type ProxySetting, settings } from './settings.ts';

/** A running kube-proxy, and beside it in the same kernel the rules of another program: parity names no difference. */

vi.setConfig({ testTimeout: 1_800_000 });
const programs = needPrograms(currentOfTier[0]);

const modes: readonly (readonly [string, ProxySetting])[] = [
  ['iptables', settings[0]],
  ['nftables', nftablesSettings[0]],
];

/** What is named of a program, and right. */
const known: Readonly<Record<string, RegExp>> = {
  ...named,
  // Its user decides, and its rules belong into the namespace of a pod.
  'istio-sidecar': /--uid-owner 1337/,
  // Which of two tables of one priority is first, the kernel does not say: one drops what the other rejects.
  'alpine-awall': /^the order of rules: .*nft ip kube-proxy/,
  // It admits no pods of IPv6, refuses addresses of a list and drops what belongs to no connection; no known program wrote it.
  'debian-nftables':
    /^the order of rules: |^foreign-rule: .*: (?:ip saddr @blackhole drop|policy drop of nft inet filter forward|ct state invalid drop)$/,
};

/** How a node takes what a tool saved. Rules are appended behind those of kube-proxy. */
const loaders: readonly (readonly [file: string, command: string])[] = [
  ['ipset.txt', 'ipset restore'],
  ['iptables-nft-save.txt', 'iptables-nft-restore --noflush'],
  ['ip6tables-nft-save.txt', 'ip6tables-nft-restore --noflush'],
  ['nft.txt', 'nft -f -'],
];

/** Keeps what the kernel has; `restore` gives it back. */
const remember = `
  nft list tables >/run/stock.tables
  iptables-nft-save >/run/stock.v4
  ip6tables-nft-save >/run/stock.v6
`;
const restore = `
  iptables-nft-restore </run/stock.v4
  ip6tables-nft-restore </run/stock.v6
  nft list tables | grep -vxFf /run/stock.tables | sed 's/^table/delete table/' | nft -f -
  ipset destroy 2>/dev/null || true
`;

/** Loads the rules, without the lines that this kernel has no module for. @returns those lines */
async function load(node: ObservedKubeProxy, { files }: WildRules): Promise<readonly string[]> {
  const refused: string[] = [];
  for (const [file, command] of loaders) {
    const lines = (files.get(file) ?? '').split('\n');
    for (;;) {
      const error = await loadLines(node, command, lines);
      if (error === undefined) break;
      const at = lineOf(error, lines);
      if (at === undefined) throw new Error(error);
      refused.push(...lines.splice(at, 1));
    }
  }
  return refused;
}

async function loadLines(
  node: ObservedKubeProxy,
  command: string,
  lines: readonly string[],
): Promise<string | undefined> {
  if (lines.every((line) => line === '')) return undefined;
  try {
    await node.run(`${command} <<'END'\n${lines.join('\n')}\nEND\n`);
    return undefined;
  } catch (error) {
    return String(error);
  }
}

/** The line that a tool names: `line 12 failed`, `/dev/stdin:12:5-9: Error`. */
function lineOf(error: string, lines: readonly string[]): number | undefined {
  const [, line = '0'] = /(?:[Ee]rror occurred at line: |line |\/dev\/stdin:)(\d+)/.exec(error) ?? [];
  const at = Number(line) - 1;
  return at >= 0 && at < lines.length ? at : undefined;
}

test.each(modes)('mode %s: the rules of no other program are a difference', async (mode, setting) => {
  const node = await ObservedKubeProxy.start(programs(), setting, clusterOfSettings);
  try {
    const bundle = await node.render();
    expect((await parity(await node.observe(), bundle)).report.result).toBe('equivalent');
    await node.run(remember);
    const wrong = [];
    for (const rules of wildRules) {
      const refused = await load(node, rules);
      if (refused.length > 0) console.log(`${mode}, ${rules.name}: this kernel refuses\n  ${refused.join('\n  ')}`);
      wrong.push(...(await wrongOf(rules, await node.observe(), bundle)));
      await node.run(restore);
    }
    expect(wrong).toEqual([]);
  } finally {
    await node.close();
  }
});

/** What parity says beyond what is known. */
async function wrongOf({ name }: WildRules, observed: string, bundle: string): Promise<readonly string[]> {
  const { differences, coverage } = (await parity(observed, bundle)).report;
  const said = [
    ...differences.map(({ frontend, cause, rule }) => `${cause}: ${frontend}: ${rule}`),
    ...coverage.notCovered.flatMap(({ matters, what, why }) => (matters ? [`${what}: ${why}`] : [])),
  ];
  return said.filter((one) => known[name]?.test(one) !== true).map((one) => `${name}: ${one}`);
}
