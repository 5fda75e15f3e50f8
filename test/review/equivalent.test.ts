import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { BundleFiles } from '@sluice/bundle';
import { compareText } from '@sluice/netfilter';
import { programPath } from '@sluice/testing';
import { afterAll, describe, expect, test } from 'vitest';
import { parse, stringify } from 'yaml';
import { readTree } from '../../packages/renderer/src/load/tree.ts';
import { compareModesAndLayouts } from '../../packages/review/src/prove/equivalence.ts';
import { type Example, listExamples, renderArguments } from '../../tools/examples.ts';
import { isOfAll, mayBeUnseen, refusedIn } from './published.ts';

const sluice = programPath('sluice');
const scratch = mkdtempSync(join(tmpdir(), 'sluice-equivalent-'));
afterAll(() => rmSync(scratch, { recursive: true }));

/** These tests start programs, on a machine that may be busy. */
const startsProgramsMs = 30_000;

interface ExampleConfig {
  apiVersion: string;
  kind: string;
  clusterName: string;
  profiles?: (Record<string, unknown> & { readonly name?: string })[];
  nodes?: Record<string, unknown>[];
}

interface ModePair {
  readonly files: BundleFiles;
  /** The profile of mode iptables that exists in another mode, too, as `other`. */
  readonly original: string;
  /** The differences of that mode that the renderer reports, as `shop/web DIFFERS_…`, or `* DIFFERS_…` for all traffic. */
  readonly reported: readonly string[];
}

/**
 * Two modes in one bundle: the first profile of the example exists in another mode, too.
 * @param members the nodes with that profile: those of the example, or one more node, which has no endpoints
 */
function renderBoth(example: Example, mode: OtherMode, members: 'all' | 'added'): ModePair {
  const plain: ExampleConfig = { apiVersion: 'sluice.dev/v1alpha1', kind: 'SluiceConfig', clusterName: example.name };
  const config = example.config === undefined ? plain : (parse(readFileSync(example.config, 'utf8')) as ExampleConfig);
  const [first = {}, ...others] = config.profiles ?? [];
  const { iptables: _iptables, ...common } = first;
  const name = first.name ?? 'default';
  const labels = { 'example.com/pool': 'added' };
  const added = { nodeSelector: { matchLabels: labels } };
  const inOther = { ...common, name: 'other', mode };
  const profiles =
    members === 'added'
      ? [{ ...inOther, ...added }, { ...first, name }, ...others]
      : [{ ...first, name, ...added }, inOther, ...others];
  const node = { name: 'node-9', labels, addresses: ['192.0.2.99', '2001:db8:2::99'], podCIDRs: ['10.244.9.0/24'] };
  const file = join(scratch, `${example.name}-${mode}-${members}.yaml`);
  writeFileSync(file, stringify({ ...config, profiles, nodes: [...(config.nodes ?? []), node] }));
  const output = join(scratch, `${example.name}-${mode}-${members}`);
  const { status, stderr } = spawnSync(sluice, renderArguments({ ...example, config: file }, output), {
    encoding: 'utf8',
  });
  if (status !== 0) throw new Error(stderr);
  const reported = [...stderr.matchAll(/differs: (?:Profile|Service) (\S+): .* \[(\w+)\]$/gm)];
  return {
    files: readTree(output) as BundleFiles,
    original: name,
    reported: reported.map(([, of = '', code = '']) => `${of === 'other' ? '*' : of} ${code}`).toSorted(compareText),
  };
}

type OtherMode = 'ipvs' | 'nftables';

/** Examples of mode iptables that need only their folder of manifests. */
const otherExamples = ['08-git', '10-ipvs', '11-mixed', '13-nftables', '14-schedulers', '15-nftables-pods'];
const examples = listExamples().filter(({ name }) => !otherExamples.includes(name));

const cases = examples.flatMap((example) =>
  (['ipvs', 'nftables'] as const).map((mode) => ({ name: example.name, mode, example })),
);

describe.each(cases)('$name in mode $mode', ({ example, mode }) => {
  test(
    'both modes and both layouts are equivalent, except for the published differences',
    () => {
      const { files, original } = renderBoth(example, mode, 'added');
      const compared = compareModesAndLayouts(files);
      const layouts = compared.filter(({ kind }) => kind === 'layouts');
      // Other profiles may have another configuration.
      const modes = compared.filter(({ kind, between }) => kind === 'profiles' && between[0] === original);
      expect(layouts.every(({ flows }) => flows > 0)).toBe(true);
      expect(modes.reduce((sum, { flows }) => sum + flows, 0)).toBeGreaterThan(10);
      expect([...layouts, ...modes].flatMap(({ unexplained }) => unexplained)).toEqual([]);
    },
    startsProgramsMs,
  );

  test.each(['all', 'added'] as const)(
    'the renderer reports exactly the differences for packets: nodes in it: %s',
    (members) => {
      const { files, original, reported } = renderBoth(example, mode, members);
      const compared = compareModesAndLayouts(files);
      const refused = refusedIn(compared);
      const met = compared
        .filter(({ kind, profile, between }) => kind === 'profiles' && profile === 'other' && between[0] === original)
        .flatMap(({ differences }) => differences)
        .filter(({ code }) => code.startsWith('DIFFERS_'))
        .flatMap(({ code, services }) => (isOfAll(code) ? ['*'] : services).map((of) => `${of} ${code}`));
      const seen = reported.filter((line) => met.includes(line) || !mayBeUnseen(line, refused));
      expect([...new Set(met)].toSorted(compareText)).toEqual(seen);
    },
    startsProgramsMs,
  );
});
