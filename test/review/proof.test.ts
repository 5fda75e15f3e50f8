import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { atTier, randomOf, seed } from '@sluice/testing';
import { describe, expect, test } from 'vitest';
import { parse, stringify } from 'yaml';
import { readConfig } from '../../packages/renderer/src/load/config/config.ts';
import { load } from '../../packages/renderer/src/load/load.ts';
import { render, type Rendered } from '../../packages/renderer/src/render/render.ts';
import { printProof } from '../../packages/renderer/src/emit/review/prove.ts';
import type { FlowOutcome } from '../../packages/renderer/src/review/flows/flow.ts';
import { type CounterExample, proveBundle } from '../../packages/renderer/src/review/prove/prove.ts';
import { type Example, listExamples } from '../../tools/examples.ts';
import { renderIn, settings } from './random-bundle.ts';

/** Right rules are proved, whether nodes know the networks of pods or not: `sluice prove` is a gate of CI. */

const clusters = atTier({ quick: 3, test: 12, all: 80 });
const modes = ['iptables', 'ipvs', 'nftables'] as const;
const networks = { with: '10.244.0.0/16,fd00:10:244::/48', without: '' } as const;

type Fault = CounterExample & { readonly mode: string };

/** Right rules that `prove` still condemns, each to be mended there: a fault that is none of these fails. */
const gaps: readonly { readonly name: string; readonly holds: (fault: Fault) => boolean }[] = [
  {
    // The list is asked for both families at once, so that a family without a CIDR counts as closed; `localhost` in mode ipvs.
    name: 'node ports under nodePortAddresses with CIDRs',
    holds: ({ destination }) => destination.kind === 'node-port' || destination.kind === 'localhost',
  },
  {
    name: 'mode ipvs: the node itself to an endpoint on its own address',
    holds: ({ mode, source, expected, found }) =>
      mode === 'ipvs' && source.class === 'node' && differOnlyIn(expected, found, /^(?:192\.0\.2\.1\d:|\[fd00::1\d\])/),
  },
  {
    name: 'mode nftables: an endpoint with two target ports, one of them without a node, to itself',
    holds: ({ mode, source, expected, found }) =>
      mode === 'nftables' && source.class === 'endpoint' && differOnlyIn(expected, found, /^/),
  },
];

/** Whether only masquerading of endpoints with such a text differs. */
function differOnlyIn(expected: CounterExample['expected'], { branches }: FlowOutcome, text: RegExp): boolean {
  if (expected.kind !== 'endpoints' || branches.length !== expected.branches.length) return false;
  return branches.every(({ to = '', masquerade }, at) => {
    const other = expected.branches[at]!;
    return to === other.to && (masquerade === other.masquerade || text.test(to));
  });
}

/** What `sluice prove` prints where it finds fault, without the gaps; `''` for a bundle that is proved. */
function faultsIn({ files }: Rendered, known: typeof gaps = []): string {
  const proof = proveBundle(files);
  if (!('counterExamples' in proof)) throw new Error(proof[0]?.message);
  expect(proof.profiles.some(({ flows }) => flows > 1)).toBe(true);
  const counterExamples = proof.counterExamples.filter(
    // A profile has the name of its mode.
    (one) => !known.some(({ holds }) => holds({ ...one, mode: one.nodes.profile })),
  );
  return counterExamples.length + proof.faults.length === 0 ? '' : printProof({ ...proof, counterExamples }, 'text');
}

interface ExampleConfig {
  readonly profiles?: readonly Readonly<Record<string, unknown>>[];
}

/** The example with all of its profiles in one mode. */
function renderExample({ input, config: file }: Example, mode: string, clusterCIDR: string): Rendered {
  const written = file === undefined ? {} : (parse(readFileSync(file, 'utf8')) as ExampleConfig);
  const profiles = (written.profiles ?? [{ name: 'default' }]).map((profile) => ({ ...profile, mode, clusterCIDR }));
  const text = stringify({ apiVersion: 'sluice.dev/v1alpha1', kind: 'SluiceConfig', ...written, profiles });
  const { config } = readConfig({ sluice: { file: 'sluice.yaml', text }, kubeProxy: [] });
  const names = readdirSync(input, { recursive: true, encoding: 'utf8' }).filter((name) => /\.ya?ml$/.test(name));
  const change = load(names.map((name) => ({ file: name, text: readFileSync(join(input, name), 'utf8') }))).objects;
  return render({ base: [], change, config, allocations: [], allocate: true, snapshot: true, strict: false });
}

const cidrs = ['with', 'without'] as const;

describe.each(listExamples().flatMap((example) => modes.map((mode) => ({ name: example.name, mode, example }))))(
  '$name in mode $mode',
  ({ example, mode }) => {
    test.each(cidrs)('is proved %s clusterCIDR', (known) => {
      expect(faultsIn(renderExample(example, mode, networks[known]))).toBe('');
    });
  },
);

describe.each(Array.from({ length: clusters }, (_, index) => ({ index, setting: settings[index % settings.length]! })))(
  'cluster $index, $setting.title',
  ({ index, setting }) => {
    test.each(cidrs)('a node in each mode is proved %s clusterCIDR', { timeout: 120_000 }, (pods) => {
      const config = pods === 'with' ? setting.config : { ...setting.config, clusterCIDR: '' };
      const list = (setting.config?.['nodePortAddresses'] ?? []) as readonly string[];
      const known = list.length > 0 ? gaps : gaps.slice(1);
      expect(faultsIn(renderIn({ ...setting, ...(config ? { config } : {}) }, randomOf(seed + index)), known)).toBe('');
    });
  },
);
