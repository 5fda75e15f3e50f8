import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { atTier, randomOf, seed } from '@sluice/testing';
import { describe, expect, test } from 'vitest';
import { parse, stringify } from 'yaml';
import { readConfig } from '../../packages/renderer/src/load/config/config.ts';
import { load } from '../../packages/renderer/src/load/load.ts';
import { render, type Rendered } from '../../packages/renderer/src/render/render.ts';
import { printProof } from '../../packages/review/src/emit/prove.ts';
import { isProved, proveBundle } from '../../packages/review/src/prove/prove.ts';
import { type Example, listExamples } from '../../tools/examples.ts';
import type { ProxySetting } from '../parity/settings.ts';
import { renderIn, settings } from './random-bundle.ts';

/** Right rules are proved, whether nodes know the networks of pods or not: `sluice prove` is a gate of CI. */

const clusters = atTier({ quick: 3, test: 12, all: 80 });
const modes = ['iptables', 'ipvs', 'nftables'] as const;
const networks = { with: '10.244.0.0/16,fd00:10:244::/48', without: '' } as const;

/** What `sluice prove` prints where it finds fault; `''` for a bundle that is proved. */
function faultsIn({ files }: Rendered): string {
  const proof = proveBundle(files);
  expect(proof.profiles.some(({ flows }) => flows > 1)).toBe(true);
  return isProved(proof) ? '' : printProof(proof, 'text');
}

interface ExampleConfig {
  readonly profiles?: readonly Readonly<Record<string, unknown>>[];
}

/** The example with all of its profiles in one mode. */
function renderExample(
  { input, config: file }: Example,
  mode: string,
  clusterCIDR: string,
  edit = (manifest: string) => manifest,
): Rendered {
  const written = file === undefined ? {} : (parse(readFileSync(file, 'utf8')) as ExampleConfig);
  const profiles = (written.profiles ?? [{ name: 'default' }]).map((profile) => ({ ...profile, mode, clusterCIDR }));
  const text = stringify({ apiVersion: 'sluice.dev/v1alpha1', kind: 'SluiceConfig', ...written, profiles });
  const { config } = readConfig({ sluice: { file: 'sluice.yaml', text }, kubeProxy: [] });
  const names = readdirSync(input, { recursive: true, encoding: 'utf8' }).filter((name) => /\.ya?ml$/.test(name));
  const change = load(
    names.map((name) => ({ file: name, text: edit(readFileSync(join(input, name), 'utf8')) })),
  ).objects;
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

test.each(modes)('mode %s: a Service with the port that is asked for all that no Service has is proved', (mode) => {
  const [example] = listExamples();
  const withDiscard = (manifest: string): string => manifest.replaceAll(/(?<=[- ] port: )80$/gm, '9');
  expect(withDiscard('- port: 80\n')).toBe('- port: 9\n');
  expect(faultsIn(renderExample(example!, mode, networks.with, withDiscard))).toBe('');
});

describe.each(Array.from({ length: clusters }, (_, index) => ({ index, setting: settings[index % settings.length]! })))(
  'cluster $index, $setting.title',
  ({ index, setting }) => {
    test.each(cidrs)('a node in each mode is proved %s clusterCIDR', { timeout: 120_000 }, (pods) => {
      const config = pods === 'with' ? setting.config : { ...setting.config, clusterCIDR: '' };
      expect(faultsIn(renderIn({ ...setting, ...(config ? { config } : {}) }, randomOf(seed + index)))).toBe('');
    });
  },
);

/** A setting of node ports by its title. */
const settingOf = (title: string): ProxySetting => settings.find((one) => one.title === title)!;
const networkOfIPv4 = settingOf('node ports on a network of IPv4, any of IPv6');
const onLocalhost = settingOf('node ports on localhost');
const tailOfAny = `*nat
-A KUBE-SERVICES -m comment --comment "kubernetes service nodeports; NOTE: this must be the last rule in this chain" -m addrtype --dst-type LOCAL ! -d ::1/128 -j KUBE-NODEPORTS
COMMIT
`;

test.each<[string, ProxySetting, string, (text: string) => string]>([
  [
    'an open family is closed',
    networkOfIPv4,
    'iptables/base/last.ip6tables',
    (text) => text.replace(/^.*-j KUBE-NODEPORTS\n/m, ''),
  ],
  ['a closed family is open', onLocalhost, 'iptables/base/last.ip6tables', (text) => text + tailOfAny],
  ['a network is lost', networkOfIPv4, 'nftables/base/last.nft', (text) => text.replace(/^.* node4 .*\n/m, '')],
  [
    'a closed family is open',
    onLocalhost,
    'nftables/base/last.nft',
    (text) => text.replace(/(?<=node6 \{ )\S+/, '::/0'),
  ],
])('node ports, mistake: %s', (_title, setting, path, edit) => {
  const { files } = renderIn(setting, randomOf(seed + 15));
  const text = files.get(`profiles/${path}`)!;
  const changed = edit(text);
  expect(changed).not.toBe(text);
  const proof = proveBundle(new Map([...files, [`profiles/${path}`, changed]]));
  expect(isProved(proveBundle(files))).toBe(true);
  expect(new Set(proof.counterExamples.map(({ destination }) => destination.kind))).toEqual(new Set(['node-port']));
});
