// @module-tag all
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import type { RbacRole, RbacRule } from '../cluster/authorizer.fixture.ts';
import { Clients } from '../netns/clients.ts';
import { needBackend, needKernel } from '../netns/privileges.ts';
import { until } from '../netns/until.ts';
import { apiServerPrograms, currentOfTier, kubeProxy, workloadPrograms } from './binaries.ts';
import { nodeName } from './clusters.ts';
import { DaemonSetNode, type DaemonSetPrograms } from './daemonset-node.ts';

/**
 * A kube-proxy that a DaemonSet runs: the real API server, the real controller of DaemonSets and the real kubectl, with the rights of
 * `deploy/mover.yaml`. The scheduler and the kubelet are stand-ins.
 */

const root = join(import.meta.dirname, '../..');
const roles = parseAllDocuments(readFileSync(join(root, 'deploy/mover.yaml'), 'utf8')).map(
  (document) => document.toJS() as RbacRole & { readonly rules: readonly RbacRule[] },
);

/** The patch of the runbook: it excludes labelled nodes from the DaemonSet. */
const patch = /patch daemonset kube-proxy --type merge -p '\n([\s\S]+?)'/.exec(
  readFileSync(join(root, 'docs/runbooks/from-kube-proxy.md'), 'utf8'),
)?.[1] as string;

const exclude = ['-n', 'kube-system', 'patch', 'daemonset', 'kube-proxy', '--type', 'merge', '-p', patch];
const label = ['label', 'node', nodeName, 'sluice.dev/rules=sluiced'];
const unlabel = ['label', 'node', nodeName, 'sluice.dev/rules-'];

let programs: DaemonSetPrograms | { readonly lack: string };
beforeAll(async () => {
  programs = await needed();
}, 3_600_000);

async function needed(): Promise<typeof programs> {
  // The API server first: what follows shares most of its packages.
  const api = await apiServerPrograms();
  if ('lack' in api) return api;
  const workloads = await workloadPrograms();
  if ('lack' in workloads) return workloads;
  const proxy = await kubeProxy(currentOfTier.at(-1));
  return 'lack' in proxy ? proxy : { ...api, ...workloads, kubeProxy: proxy.path };
}

let cluster: DaemonSetNode;
beforeEach(async (context) => {
  needKernel(context);
  needBackend(context, 'nft');
  if ('lack' in programs) return context.skip(programs.lack);
  cluster = await DaemonSetNode.start(programs);
}, 300_000);
afterEach(async () => cluster?.close());

/** What a rule grants, each with its verb and resource. */
const grants = roles.flatMap((role) =>
  role.rules.flatMap((rule) =>
    rule.verbs.flatMap((verb) => rule.resources.map((resource) => ({ role, rule, verb, resource }))),
  ),
);

/** Gives the operator these roles, and waits until the API server knows them. @param without a verb that one of them does not have */
async function grant(without?: (typeof grants)[number]): Promise<void> {
  const given = roles.map((role) => ({
    ...role,
    rules: role.rules.map((rule) =>
      rule === without?.rule ? { ...rule, verbs: rule.verbs.filter((verb) => verb !== without.verb) } : rule,
    ),
  }));
  const bindings = roles.map(({ kind, metadata }) => ({
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: `${kind}Binding`,
    metadata,
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind, name: metadata.name },
    subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: 'sluice' }],
  }));
  await cluster.apply(...given, ...bindings);
  for (const one of grants) await untilGranted(one, one.rule !== without?.rule || one.verb !== without.verb);
}

async function untilGranted({ role, rule, verb, resource }: (typeof grants)[number], is: boolean): Promise<void> {
  const name = rule.resourceNames?.[0];
  const of = `${resource}${rule.apiGroups[0] === '' ? '' : `.${rule.apiGroups[0]}`}${name === undefined ? '' : `/${name}`}`;
  const namespace = role.metadata.namespace === undefined ? [] : ['-n', role.metadata.namespace];
  await until(`the API server ${is ? 'grants' : 'refuses'} ${verb} of ${resource}`, async () => {
    const { stdout } = await cluster.kubectl('mover', ['auth', 'can-i', verb, of, ...namespace]);
    return stdout.trim() === (is ? 'yes' : 'no');
  });
}

/** What the operator may change, and the pods that follow from it. */
const state = async (): Promise<unknown> => ({
  labels: await cluster.field('node', nodeName, '.metadata.labels'),
  template: await cluster.field('daemonset', 'kube-proxy', '.spec.template'),
  generation: await cluster.field('daemonset', 'kube-proxy', '.metadata.generation'),
  pods: await cluster.pods(),
  proxies: await cluster.node.proxies(),
});

/** Runs `sluiced adopt`, and a command of the operator once it says these words. */
async function during(args: readonly string[], words: string, command: readonly string[]) {
  const { node } = cluster;
  const log = `${node.directory}/adopt.log`;
  const ended = node.run(['sh', '-c', 'log=$1; shift; exec "$@" > "$log" 2>&1', 'sh', log, ...node.command(...args)]);
  const said = (): string => {
    try {
      return readFileSync(log, 'utf8');
    } catch {
      return '';
    }
  };
  await until(`sluiced says: ${words}`, async () => said().includes(words), 60_000);
  expect(await cluster.kubectl('mover', command)).toMatchObject({ exitCode: 0 });
  return { exitCode: (await ended).exitCode, said: said() };
}

test('a labelled node loses kube-proxy in the middle of its move, and gets it back after an undo', {
  timeout: 300_000,
}, async () => {
  const { node } = cluster;
  await grant();
  const [first] = await cluster.pods();
  expect(await cluster.kubectl('mover', exclude)).toMatchObject({ exitCode: 0 });
  await cluster.untilReconciled();
  await until('another pod serves', async () => {
    const [pod] = await cluster.pods();
    return pod !== undefined && pod !== first && (await node.proxies()) === 1;
  });
  await cluster.untilServed();
  const before = await node.rules('nft');
  const clients = await Clients.start(node);
  const there = await during(['adopt', '--daemonset'], 'kube-proxy stops now', label);
  expect(there).toMatchObject({ exitCode: 0, said: expect.stringContaining('adopted: Sluice serves alone') });
  expect({ pods: await cluster.pods(), proxies: await node.proxies() }).toEqual({ pods: [], proxies: 0 });
  expect(await node.rules('nft')).not.toContain('KUBE-SVC-');
  // It stays away when the controller starts again, and when the DaemonSet changes.
  await cluster.startController();
  await cluster.must(['-n', 'kube-system', 'set', 'env', 'daemonset/kube-proxy', 'AGAIN=1']);
  await cluster.untilReconciled();
  expect({ pods: await cluster.pods(), proxies: await node.proxies() }).toEqual({ pods: [], proxies: 0 });
  const served = clients.served();
  await until('Sluice alone serves', async () => clients.served() > served + 100);
  const back = await during(['adopt', '--undo'], 'kube-proxy may run again', unlabel);
  expect(back).toMatchObject({ exitCode: 0, said: expect.stringContaining('undone: kube-proxy serves') });
  expect({ pods: (await cluster.pods()).length, proxies: await node.proxies() }).toEqual({ pods: 1, proxies: 1 });
  const sorted = (text: string): readonly string[] => text.split('\n').toSorted();
  expect(sorted(await node.rules('nft'))).toEqual(sorted(before));
  expect(clients.lost()).toEqual([]);
});

test('each right of the operator is needed: without it the command says which, and nothing changes', {
  timeout: 300_000,
}, async () => {
  const commands: Readonly<Record<string, readonly string[]>> = { nodes: label, daemonsets: exclude };
  expect(grants.length).toBeGreaterThan(3);
  for (const one of grants) {
    await grant(one);
    const before = await state();
    const refused = await cluster.kubectl('mover', commands[one.resource] ?? []);
    const why = expect.stringMatching(new RegExp(`Forbidden.* cannot ${one.verb} resource "${one.resource}"`));
    expect({ without: one.verb, ...refused }).toMatchObject({ exitCode: 1, stderr: why });
    expect(await state()).toEqual(before);
  }
});

test('a node that may not be labelled stays as it is beneath Sluice, and an undo leaves kube-proxy alone', {
  timeout: 300_000,
}, async () => {
  const { node } = cluster;
  await grant(grants.find(({ resource, verb }) => resource === 'nodes' && verb === 'patch'));
  const [before, rules] = [await state(), await node.rules('nft')];
  expect(await node.sluiced('adopt', '--daemonset', '--wait', '0')).toMatchObject({
    exitCode: 1,
    stdout: expect.stringContaining('Stop it: label the node'),
  });
  expect(await cluster.kubectl('mover', label)).toMatchObject({ exitCode: 1 });
  expect(await state()).toEqual(before);
  expect(await node.sluiced('adopt', '--undo')).toMatchObject({ exitCode: 0 });
  expect(await state()).toEqual(before);
  expect((await node.rules('nft')).split('\n').toSorted()).toEqual(rules.split('\n').toSorted());
});
