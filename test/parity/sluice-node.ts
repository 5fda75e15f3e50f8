import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { programPath } from '@sluice/testing';
import { execa } from 'execa';
import { isKubeProxyVersion, kubeProxyVersions } from '../../packages/renderer/src/render/model/version.ts';
import { guestStore } from '../in-guest.ts';
import type { KubeItem } from './api-server.ts';
import type { Minor } from './binaries.ts';
import { nodeName } from './clusters.ts';
import { syncTimeoutMs } from './kube-proxy-node.ts';
import { proxyConfig, type ProxySetting } from './settings.ts';
import { WiredNode } from './wire.ts';

/** `sluice render` of a KubeProxyConfiguration and clusters, into one directory for all nodes. */
export class Renderer {
  readonly bundle: string;
  readonly #dir: string;
  readonly setting: ProxySetting;

  /** @param dir an empty directory */
  constructor(setting: ProxySetting, minor: Minor, dir: string) {
    mkdirSync(join(dir, 'manifests'), { recursive: true });
    this.setting = setting;
    this.#dir = dir;
    this.bundle = join(dir, 'rendered');
    // A version before its release has no rules of its own yet.
    const version = isKubeProxyVersion(minor) ? minor : kubeProxyVersions.at(-1);
    const profile = `{name: default, kubeProxyVersion: "${version}"}`;
    const settings = `clusterName: parity\ncomplete: true\nprofiles: [${profile}]\n`;
    writeFileSync(join(dir, 'sluice.yaml'), `apiVersion: sluice.dev/v1alpha1\nkind: SluiceConfig\n${settings}`);
  }

  async render(cluster: readonly KubeItem[]): Promise<void> {
    const documents = [proxyConfig(this.setting), ...cluster].map((item) => `${JSON.stringify(item)}\n`);
    writeFileSync(join(this.#dir, 'manifests', 'all.yaml'), documents.join('---\n'));
    await execa(
      process.execPath,
      [programPath('sluice'), 'render', '-f', 'manifests', '-c', 'sluice.yaml', '-o', 'rendered'],
      {
        cwd: this.#dir,
      },
    );
  }
}

export type Layout = 'flat' | 'tree';

/** A node with the rules that `sluiced apply` loads from a bundle. */
export class SluiceNode {
  readonly node: WiredNode;
  readonly #renderer: Renderer;
  readonly #dir: string;

  private constructor(node: WiredNode, renderer: Renderer, dir: string) {
    this.node = node;
    this.#renderer = renderer;
    this.#dir = dir;
  }

  /** @param dir an empty directory */
  static async start(layout: Layout, renderer: Renderer, wire: string, dir: string): Promise<SluiceNode> {
    mkdirSync(dir, { recursive: true });
    const config = {
      apiVersion: 'sluice.dev/v1alpha1',
      kind: 'SluicedConfig',
      node: nodeName,
      bundle: renderer.bundle,
      state: join(dir, 'state'),
      backend: guestStore,
      layout,
      signatures: { policy: 'none' },
      receipts: { directory: join(dir, 'receipts') },
    };
    writeFileSync(join(dir, 'sluiced.yaml'), JSON.stringify(config));
    const node = await WiredNode.start(`sluice ${layout}`, wire, renderer.setting.commands);
    return new SluiceNode(node, renderer, dir);
  }

  /** Ends once every rule of the last render is in the kernel. */
  async put(): Promise<void> {
    const { bundle } = this.#renderer;
    const apply = [process.execPath, programPath('sluiced'), 'apply', bundle, '-c', join(this.#dir, 'sluiced.yaml')];
    const { exitCode, stderr } = await this.node.host.exec(apply, { timeoutMs: syncTimeoutMs });
    // It logs its incomplete work there; on a slow machine the deletion of flows may exceed its time limit.
    const isLate = stderr.includes('it takes longer than');
    if (exitCode !== 0 || (stderr !== '' && !isLate))
      throw new Error(`sluiced apply on ${this.node.host.name}: exit code ${exitCode}\n${stderr}`);
  }

  /** Starts the daemon, which follows the renderer from now on. */
  run(): void {
    this.node.host.start([process.execPath, programPath('sluiced'), 'run', '-c', join(this.#dir, 'sluiced.yaml')]);
  }

  close(): Promise<void> {
    return this.node.close();
  }
}
