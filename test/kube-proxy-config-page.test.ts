import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { type Effect, fieldEffects } from '../packages/renderer/src/load/schema/effect.ts';
import { gates } from '../packages/renderer/src/load/schema/gates.ts';
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
const text = `# What becomes of a KubeProxyConfiguration

\`sluice render -f\` takes kube-proxy's own configuration, or the ConfigMap that kubeadm keeps it in, for the profiles of all nodes; \`sluice.yaml\` wins (\`CONFIG_OVERRIDES\`). It is read as kube-proxy 1.37 reads it, and no field is passed over in silence:

- **followed**: rules and sysctls are those of kube-proxy with this value. A profile of \`sluice.yaml\` has a field of the same name.
- **warning** (\`CONFIG_IGNORED\`): nodes with Sluice do something else. Said for values that differ from kube-proxy's default.
- **no effect**: neither rules nor anything else that Sluice does would be otherwise.

| field | what becomes of it |
|---|---|
${rows(fieldEffects(kubeProxySchema))}
## Feature gates

Another gate is a **warning**: kube-proxy 1.37 does not read it, and does not start with one that no part of Kubernetes knows.

| in \`featureGates\` | what becomes of it |
|---|---|
${rows(fieldEffects({ type: 'object', properties: gates }))}`;

/** UPDATE_DOCS=1 writes the page anew. */
if (process.env['UPDATE_DOCS'] === '1') writeFileSync(page, text);

test('docs/kube-proxy-config.md says what becomes of every field', () => {
  expect(readFileSync(page, 'utf8')).toBe(text);
});
