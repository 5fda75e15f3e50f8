import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { programPath } from '@sluice/testing';
import { AdoptNode } from '../netns/adopt-node.ts';
import { addPods } from '../netns/clients.ts';
import type { Daemon, ExecResult } from '../netns/cluster-host.ts';
import { until } from '../netns/until.ts';
import { shopServices, writeTools } from './adopting-node.ts';
import type { ApiServerPrograms, WorkloadPrograms } from './binaries.ts';
import { nodeName, nodes } from './clusters.ts';
import { ownConfig } from './kube-proxy-node.ts';

/** All programs of a node whose kube-proxy is in a DaemonSet. */
export interface DaemonSetPrograms extends ApiServerPrograms, WorkloadPrograms {
  readonly kubeProxy: string;
}

/** Who asks the API server: an administrator, or the operator who moves nodes. */
export type Account = 'admin' | 'mover';

/** As kubeadm makes it (`cmd/kubeadm/app/phases/addons/proxy/manifests.go`), without volumes: a stand-in for the kubelet starts its program. */
const daemonSet = {
  apiVersion: 'apps/v1',
  kind: 'DaemonSet',
  metadata: { name: 'kube-proxy', namespace: 'kube-system', labels: { 'k8s-app': 'kube-proxy' } },
  spec: {
    selector: { matchLabels: { 'k8s-app': 'kube-proxy' } },
    updateStrategy: { type: 'RollingUpdate' },
    template: {
      metadata: { labels: { 'k8s-app': 'kube-proxy' } },
      spec: {
        priorityClassName: 'system-node-critical',
        containers: [
          {
            name: 'kube-proxy',
            image: 'registry.k8s.io/kube-proxy:v1.37.2',
            command: ['/usr/local/bin/kube-proxy', '--config=/var/lib/kube-proxy/config.conf'],
            securityContext: { privileged: true },
          },
        ],
        hostNetwork: true,
        tolerations: [{ operator: 'Exists' }],
        nodeSelector: { 'kubernetes.io/os': 'linux' },
      },
    },
  },
};

const setting = { title: 'iptables', config: { mode: 'iptables' } };

/**
 * A node of a cluster with a real API server and the real DaemonSet controller, all in the node's network namespace; its kube-proxy is the real
 * one, started and ended by `kubelet.ts`.
 */
export class DaemonSetNode {
  readonly node: AdoptNode;
  readonly #programs: DaemonSetPrograms;
  readonly #kubeconfigs: Readonly<Record<Account, string>>;
  /** The last one first. */
  readonly #daemons: Daemon[] = [];
  #controller: Daemon | undefined;

  private constructor(node: AdoptNode, programs: DaemonSetPrograms, kubeconfigs: Readonly<Record<Account, string>>) {
    this.node = node;
    this.#programs = programs;
    this.#kubeconfigs = kubeconfigs;
  }

  /** Ends once kube-proxy has written the rules of all Services, and the bundle of the cluster is rendered. */
  static async start(programs: DaemonSetPrograms): Promise<DaemonSetNode> {
    const node = await AdoptNode.start();
    await addPods(node);
    const { server, kubeconfigs } = await startApi(node, programs);
    const one = new DaemonSetNode(node, programs, kubeconfigs);
    one.#daemons.push(server);
    try {
      await one.#fill();
      await one.startController();
      one.#startKubelet();
      await one.untilServed();
      await one.#render();
    } catch (error) {
      await one.close();
      throw error;
    }
    return one;
  }

  /** Runs the real kubectl. */
  kubectl(account: Account, args: readonly string[], input?: string): Promise<ExecResult> {
    const command = ['/usr/bin/env', `HOME=${this.node.directory}`, this.#programs.kubectl];
    return this.node.host.exec([...command, '--kubeconfig', this.#kubeconfigs[account], ...args], {
      timeoutMs: 60_000,
      ...(input === undefined ? {} : { input }),
    });
  }

  /** As the administrator. @throws Error where it fails */
  async must(args: readonly string[], input?: string): Promise<string> {
    const { exitCode, stdout, stderr } = await this.kubectl('admin', args, input);
    if (exitCode !== 0) throw new Error(`kubectl ${args.join(' ')}: exit code ${exitCode}\n${stderr}`);
    return stdout;
  }

  apply(...objects: readonly object[]): Promise<string> {
    return this.must(['apply', '-f', '-'], objects.map((object) => JSON.stringify(object)).join('\n---\n'));
  }

  /** A field of an object, as JSON; empty without one. */
  field(kind: string, name: string, path: string): Promise<string> {
    return this.must(['-n', 'kube-system', 'get', kind, name, '-o', `jsonpath={${path}}`]);
  }

  /** The uid of each pod of kube-proxy on the node that stays. */
  async pods(): Promise<readonly string[]> {
    const path = '{range .items[*]}{.spec.nodeName} {.metadata.deletionTimestamp} {.metadata.uid}{"\\n"}{end}';
    const text = await this.must(['-n', 'kube-system', 'get', 'pods', '-o', `jsonpath=${path}`]);
    return text
      .split('\n')
      .flatMap((line) => (line.startsWith(`${nodeName}  `) ? [line.slice(nodeName.length + 2)] : []));
  }

  async startController(): Promise<void> {
    await this.#controller?.stop();
    this.#controller = this.node.host.start([this.#programs.workloads, 'daemonsets', this.#kubeconfigs.admin]);
  }

  /** Waits until the controller has brought the pods of the DaemonSet to its newest state. */
  async untilReconciled(): Promise<void> {
    const generation = await this.field('daemonset', 'kube-proxy', '.metadata.generation');
    await until(
      'the controller has seen the DaemonSet',
      async () => (await this.field('daemonset', 'kube-proxy', '.status.observedGeneration')) === generation,
      60_000,
    );
  }

  /** Waits until kube-proxy runs and its rules have every endpoint. */
  async untilServed(): Promise<void> {
    const wanted = ['10.244.0.2', '10.244.0.3', '10.244.0.4', '[fd00:10::1]', '[fd00:10::2]', '[fd00:10::3]'];
    await until(
      'kube-proxy has written its rules',
      async () => {
        const rules = await this.node.rules('nft');
        return (await this.node.proxies()) === 1 && wanted.every((address) => rules.includes(`${address}:8080`));
      },
      120_000,
    );
  }

  async close(): Promise<void> {
    for (const daemon of [...(this.#controller ? [this.#controller] : []), ...this.#daemons.toReversed()])
      await daemon.stop();
    await this.node.close();
  }

  async #fill(): Promise<void> {
    const [node] = nodes;
    const labels = { ...node?.metadata.labels, 'kubernetes.io/os': 'linux' };
    const config = JSON.stringify(ownConfig(setting, this.node.directory));
    await this.apply(
      { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'shop' } },
      { ...node, metadata: { name: nodeName, labels } },
      {
        apiVersion: 'v1',
        kind: 'ConfigMap',
        metadata: { name: 'kube-proxy', namespace: 'kube-system' },
        data: { 'config.conf': config },
      },
      ...shopServices,
      daemonSet,
    );
  }

  #startKubelet(): void {
    const { directory, host } = this.node;
    writeTools(join(directory, 'tools'), 'nft');
    writeFileSync(join(directory, 'kubeconfig'), readFileSync(this.#kubeconfigs.admin));
    writeFileSync(join(directory, 'kube-proxy.config'), JSON.stringify(ownConfig(setting, directory)));
    const kubelet = [process.execPath, join(import.meta.dirname, 'kubelet.ts'), this.#kubeconfigs.admin, nodeName];
    const proxy = [this.#programs.kubeProxy, '--config', join(directory, 'kube-proxy.config')];
    const env = { PATH: `${directory}/tools:${process.env['PATH'] ?? ''}` };
    this.#daemons.push(host.start([...kubelet, ...proxy], env));
  }

  /** Renders the cluster with kube-proxy's own ConfigMap, for `sluiced.yaml`. */
  async #render(): Promise<void> {
    const { node } = this;
    const dir = node.directory;
    const compare = join(dir, 'compare');
    writeFileSync(compare, `#!/bin/sh\nexec ${process.execPath} ${programPath('sluice')} "$@"\n`, { mode: 0o755 });
    const profile = 'profiles: [{name: default, kubeProxyVersion: "1.37"}]';
    writeFileSync(
      join(dir, 'sluice.yaml'),
      `apiVersion: sluice.dev/v1alpha1\nkind: SluiceConfig\nclusterName: parity\n${profile}\n`,
    );
    const options = ['--from-cluster', '--kubeconfig', this.#kubeconfigs.admin, '-c', join(dir, 'sluice.yaml')];
    await node.tool([compare, 'render', ...options, '-o', join(dir, 'rendered')]);
    node.writeConfig('nft', `parityProgram: ${compare}\n`, nodeName);
  }
}

async function startApi(
  node: AdoptNode,
  { apiserver, etcd }: ApiServerPrograms,
): Promise<{ readonly server: Daemon; readonly kubeconfigs: Readonly<Record<Account, string>> }> {
  const file = join(node.directory, 'kubeconfigs.json');
  const program = join(import.meta.dirname, 'real-api-server.ts');
  const ranges = '10.96.0.0/16,fd00:96::/112';
  const server = node.host.start([process.execPath, program, JSON.stringify({ apiserver, etcd }), ranges, file]);
  let failure: string | undefined;
  void server.ended.then(({ output }) => (failure = output));
  try {
    await until(
      'the API server answers',
      async () => {
        if (failure !== undefined) throw new Error(`The API server has ended: ${failure}`);
        return existsSync(file);
      },
      180_000,
    );
  } catch (error) {
    await node.close();
    throw error;
  }
  return { server, kubeconfigs: JSON.parse(readFileSync(file, 'utf8')) as Record<Account, string> };
}
