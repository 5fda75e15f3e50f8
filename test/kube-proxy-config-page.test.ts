import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Effect } from '../packages/renderer/src/load/schema/schema.ts';
import { fieldEffects } from '../packages/renderer/src/load/schema/effect.ts';
import { gates, removedGates } from '../packages/renderer/src/load/schema/gates.ts';
import { kubeProxySchema } from '../packages/renderer/src/load/schema/kubeproxy.ts';

const page = join(import.meta.dirname, '..', 'docs', 'kube-proxy-config.md');

function sentence(effect: Effect): string {
  switch (effect.kind) {
    case 'followed':
      return effect.note === '' ? 'followed' : `followed: ${effect.note}`;
    case 'unfollowed': {
      const modes = effect.modes?.filter((mode) => mode !== '').map((mode) => `\`${mode}\``);
      const when = [
        ...(modes ? [` in mode ${modes.join(', ')}`] : []),
        ...(effect.usual.includes(true) ? [' with `false`'] : []),
      ];
      return `**warning**${when.join('')}: ${effect.why}`;
    }
    case 'none':
      return `no effect: ${effect.why}`;
  }
}

const rows = (effects: ReadonlyMap<string, Effect>): string =>
  [...effects].map(([name, effect]) => `| \`${name}\` | ${sentence(effect)} |\n`).join('');

/** The page of what becomes of each field of a KubeProxyConfiguration. */
const text = `# Effect of a KubeProxyConfiguration

\`sluice render -f\` takes what says how kube-proxy runs, for the profiles of all nodes; \`sluice.yaml\` takes precedence (\`CONFIG_OVERRIDES\`). It is told by its content:

| input | what is read |
|---|---|
| a KubeProxyConfiguration, alone or in any value of a ConfigMap (kubeadm, kubespray, EKS, Gardener, hand-made ones) | every field, as below |
| a DaemonSet or Pod whose container runs kube-proxy without \`--config\` (AKS, GKE, kops) | its flags, as the fields that they set |
| the config file of k3s or RKE2, with those of \`config.yaml.d\` | \`kube-proxy-arg\`, with the flags that k3s adds; \`cluster-cidr\`, \`service-cidr\`, \`service-node-port-range\` |
| Nodes of k3s or RKE2, where nothing else says how kube-proxy runs | the same, in the annotation \`k3s.io/node-args\` or \`rke2.io/node-args\`; nodes with other flags are named |
| kubeadm's ClusterConfiguration, alone or in a ConfigMap | \`kubernetesVersion\`, \`networking.podSubnet\` where no ConfigMap says what runs, \`networking.serviceSubnet\`, the range of node ports |

Two that set a field differently stop the command; a configuration of mode \`kernelspace\` beside another one is for nodes with Windows, and a note. Fields are read as by kube-proxy 1.37 and 1.38, which have the same ones, and none is ignored silently:

- **followed**: rules and sysctls are those of kube-proxy with this value. A profile of \`sluice.yaml\` has a field of the same name.
- **warning** (\`CONFIG_IGNORED\`): nodes with Sluice behave differently. Reported for values other than kube-proxy's default.
- **no effect**: the value changes neither rules nor any other behaviour of Sluice.

| field | effect |
|---|---|
${rows(fieldEffects(kubeProxySchema))}
## Feature gates

Another gate is a **warning**: kube-proxy does not read it, and does not start with a gate that is unknown to Kubernetes. So are, in a profile of that version or a later one, gates that it no longer starts with: ${Object.entries(
  removedGates,
)
  .map(([name, version]) => `\`${name}\` (${version})`)
  .join(', ')}.

| in \`featureGates\` | effect |
|---|---|
${rows(fieldEffects({ type: 'object', properties: gates }))}`;

/** UPDATE_DOCS=1 rewrites the page. */
if (process.env['UPDATE_DOCS'] === '1') writeFileSync(page, text);

test('docs/kube-proxy-config.md is up to date', () => {
  expect(readFileSync(page, 'utf8')).toBe(text);
});
