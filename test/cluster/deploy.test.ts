import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { buildProgram } from '../../packages/renderer/src/cli/program.ts';
import { eventRule } from '../../packages/renderer/src/cluster/watch/events.ts';
import { leaseRule } from '../../packages/renderer/src/cluster/watch/lease.ts';

const deploy = join(import.meta.dirname, '..', '..', 'deploy');
const read = (file: string): string => readFileSync(join(deploy, file), 'utf8');

interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly rules?: readonly unknown[];
  readonly roleRef?: { readonly kind: string; readonly name: string };
  readonly subjects?: readonly { readonly name: string; readonly namespace: string }[];
  readonly spec?: { readonly template: { readonly spec: PodSpec } };
}
interface PodSpec {
  readonly securityContext: Readonly<Record<string, unknown>>;
  readonly containers: readonly Container[];
  readonly initContainers: readonly Container[];
}
interface Container {
  readonly args?: readonly string[];
  readonly securityContext: Readonly<Record<string, unknown>>;
}

const manifests = ['clusterrole.yaml', 'watch.yaml'].flatMap((file) =>
  parseAllDocuments(read(file)).map((document) => document.toJS() as Manifest),
);
const named = (kind: string, name: string): Manifest | undefined =>
  manifests.find((manifest) => manifest.kind === kind && manifest.metadata.name === name);

test('the roles for Events and the Lease are the rules that the messages name', () => {
  expect(named('ClusterRole', 'sluice-events')?.rules).toEqual([parse(eventRule)]);
  expect(named('Role', 'sluice-lease')?.rules).toEqual([parse(leaseRule)]);
});

test('every binding binds a role that is there to the account of the pods', () => {
  const bindings = manifests.filter(({ kind }) => kind.endsWith('Binding'));
  expect(bindings).toHaveLength(4);
  for (const { roleRef, subjects } of bindings) {
    expect(named(roleRef?.kind ?? '', roleRef?.name ?? '')).toBeDefined();
    for (const { name, namespace } of subjects ?? []) {
      expect(named('ServiceAccount', name)?.metadata.namespace).toBe(namespace);
    }
  }
});

const pods = named('Deployment', 'sluice-watch')?.spec?.template.spec;

test('pods run as the restricted standard asks, on a root that cannot be written', () => {
  expect(pods?.securityContext).toMatchObject({ runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } });
  const containers = [...(pods?.containers ?? []), ...(pods?.initContainers ?? [])];
  expect(containers).toHaveLength(2);
  for (const { securityContext } of containers) {
    expect(securityContext).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    });
  }
});

/** The options of `sluice watch`, as its help has them. */
function knownOptions(): readonly string[] {
  const watch = buildProgram().commands.find((command) => command.name() === 'watch');
  return watch?.options.flatMap(({ long }) => long ?? []) ?? [];
}

test.each([
  ['the Deployment', (pods?.containers[0]?.args ?? []).slice(1)],
  ['the systemd unit', (/^ExecStart=\S+ watch (.*)$/m.exec(read('sluice-watch.service'))?.[1] ?? '').split(' ')],
])('%s uses options that there are', (_title, args) => {
  expect(args.length).toBeGreaterThan(2);
  for (const arg of args) expect(knownOptions()).toContain(arg.replace(/=.*/, ''));
});
