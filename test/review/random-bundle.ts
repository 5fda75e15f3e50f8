import { stringify } from 'yaml';
import { readConfig } from '../../packages/renderer/src/load/config/config.ts';
import { load } from '../../packages/renderer/src/load/load.ts';
import { render, type Rendered } from '../../packages/renderer/src/render/render.ts';
import { clusterCIDR, drawCluster, itemsOf } from '../parity/clusters.ts';
import { nftablesSettings, type ProxySetting, settings as iptablesSettings } from '../parity/settings.ts';

const services = 6;

const modes = ['iptables', 'ipvs', 'nftables'] as const;
const label = 'example.com/mode';

/** Those of mode nftables, and more about node ports. */
export const settings: readonly ProxySetting[] = [
  ...nftablesSettings,
  ...iptablesSettings.filter(({ title }) => /loopback|localhost|liberal conntrack/.test(title)),
];

/** The last node has no endpoints. */
const third = {
  name: 'node-3',
  labels: { [label]: 'nftables' },
  addresses: ['192.0.2.13', 'fd00::13'],
  podCIDRs: ['10.244.3.0/24', 'fd00:10:244:3::/64'],
};

/** A random cluster under a setting, with a node in each mode. */
export function renderIn(setting: ProxySetting, random: () => number): Rendered {
  const { mode: _mode, linux: _linux, ...own }: Readonly<Record<string, unknown>> = setting.config ?? {};
  const profiles = modes.map((mode) => ({
    name: mode,
    mode,
    clusterCIDR: clusterCIDR.join(','),
    // masqueradeAll is an option of each mode.
    iptables: own['nftables'] ?? {},
    ...own,
    nodeSelector: { matchLabels: { [label]: mode } },
  }));
  const text = stringify({
    apiVersion: 'sluice.dev/v1alpha1',
    kind: 'SluiceConfig',
    complete: true,
    profiles,
    nodes: [third],
  });
  const { config, problems } = readConfig({ sluice: { file: 'sluice.yaml', text }, kubeProxy: [] });
  const wrong = problems.find(({ level }) => level === 'error');
  if (wrong) throw new Error(wrong.message);
  const names = ['node-1', 'node-2'];
  const items = itemsOf(drawCluster(services, random)).map((item) => {
    const at = item.kind === 'Node' ? names.indexOf(item.metadata.name) : -1;
    const { metadata } = item;
    return at < 0 ? item : { ...item, metadata: { ...metadata, labels: { ...metadata.labels, [label]: modes[at] } } };
  });
  const documents = items.map((item) => `${JSON.stringify(item)}\n`).join('---\n');
  const change = load([{ file: 'all.yaml', text: documents }]).objects;
  const input = { base: [], change, config, allocations: [], allocate: false, snapshot: true, strict: false };
  return render(input);
}
