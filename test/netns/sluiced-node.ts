import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { programPath } from '@sluice/testing';
import { execa } from 'execa';
import { peek } from '../../packages/applier/src/state/peek.ts';
import type { NodeRecord } from '../../packages/applier/src/state/record.ts';
import { sampleBundle, sampleNode } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { isInGuest } from '../in-guest.ts';
import { NftListing } from './nft-listing.ts';

export { until } from './until.ts';

/** The settings under which `sluiced` is tested: the first is the one that most nodes have. */
export const kinds = [
  { backend: 'nft', layout: 'tree' },
  { backend: 'legacy', layout: 'tree' },
  { backend: 'nft', layout: 'flat' },
  { backend: 'legacy', layout: 'flat' },
] as const;

/** The same, and mode nftables, where the rule store holds foreign rules alone. */
export const dataPlanes = [
  ...kinds.map((kind) => ({ ...kind, mode: 'iptables' as const })),
  { backend: 'nft', layout: 'tree', mode: 'nftables' },
] as const;

/** What forwards packets on a node: mode iptables or ipvs on a rule store, or mode nftables beside one. */
export interface DataPlane {
  readonly backend: 'nft' | 'legacy';
  /** Mode ipvs needs a kernel with its modules (`test/vm`). */
  readonly mode: 'iptables' | 'nftables' | 'ipvs';
}

/** Mode iptables on each rule store in the default layout, and mode nftables. */
export const plainPlanes = [
  { backend: 'nft', mode: 'iptables' },
  { backend: 'legacy', mode: 'iptables' },
  { backend: 'nft', mode: 'nftables' },
] as const satisfies readonly DataPlane[];

/** Both modes on nf_tables. */
export const modesOnNft = plainPlanes.filter(({ backend }) => backend === 'nft');

export const stores = ['nft', 'legacy'] as const;

/** Those of this kernel: mode ipvs has one of its own, in user mode (`test/vm`). */
export const planesHere: readonly DataPlane[] = isInGuest ? [{ backend: 'legacy', mode: 'ipvs' }] : plainPlanes;

/** The data planes of `plainPlanes`, and layout flat on nf_tables. */
export const layoutPlanes = dataPlanes.filter(({ backend, layout }) => layout === 'tree' || backend === 'nft');

/** Rules of a CNI plugin and of an administrator. */
export const foreign =
  '*nat\n:CNI-X - [0:0]\n-A CNI-X -j RETURN\n-A POSTROUTING -s 10.244.0.0/16 -j CNI-X\nCOMMIT\n*filter\n-A FORWARD -s 192.0.2.7/32 -j DROP\nCOMMIT\n';

/** A bundle in which `shop/web` has these endpoints, and `shop/cart` always the same one. */
export const web = (...endpoints: readonly number[]): ReadonlyMap<string, string> => webIn('iptables', ...endpoints);

/** The same in any mode. */
export const webIn = (mode: 'iptables' | 'nftables', ...endpoints: readonly number[]): ReadonlyMap<string, string> =>
  sampleBundle({ services: { 'shop/web': endpoints, 'shop/cart': [50] }, families: ['ipv4', 'ipv6'], mode });

const main = programPath('sluiced');

/** The output of a command and its exit code. */
export interface CommandResult {
  readonly exitCode?: number | undefined;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * The real program on the real kernel: a network namespace with a /run of its own, and a directory with `sluiced.yaml`, `state` and
 * the bundle `rendered`.
 */
export class SluicedNode {
  readonly name = `slt-${process.pid}-${randomBytes(3).toString('hex')}`;
  readonly directory = mkdtempSync(`${tmpdir()}/slt-`);
  readonly #children: ChildProcess[] = [];

  readonly #prepare: string;
  readonly #unshared: readonly string[];

  private constructor(prepare: string, hasOwnProcesses: boolean) {
    this.#prepare = prepare;
    this.#unshared = hasOwnProcesses ? ['-m', '--pid', '--fork', '--kill-child', '--mount-proc'] : ['-m'];
  }

  /**
   * Makes the namespace; `remove` ends it.
   * @param prepare shell text that prepares every mount namespace, such as `mount … &&`
   * @param hasOwnProcesses each command sees its own processes alone, and no kube-proxy of another test
   */
  static async make(prepare = '', hasOwnProcesses = false): Promise<SluicedNode> {
    const node = new SluicedNode(prepare, hasOwnProcesses);
    await execa('ip', ['netns', 'add', node.name]);
    await execa('ip', ['netns', 'exec', node.name, 'ip', 'link', 'set', 'lo', 'up']);
    return node;
  }

  async remove(): Promise<void> {
    await this.killAll();
    await execa('ip', ['netns', 'delete', this.name], { reject: false });
    rmSync(this.directory, { recursive: true, force: true });
  }

  /** Kills every program that was started here. */
  async killAll(): Promise<void> {
    for (const child of this.#children.splice(0))
      if (child.exitCode === null && child.signalCode === null) await this.kill(child);
  }

  /**
   * A command line that runs inside the namespace. Every shell execs: the started process is the program itself.
   * @param before shell text to run first, in the same mount namespace
   */
  #inside(command: readonly string[], before = ''): [string, string[]] {
    const script = `mount -t tmpfs tmpfs /run && ${this.#prepare} ${before} exec "$@"`;
    return ['ip', ['netns', 'exec', this.name, 'unshare', ...this.#unshared, 'sh', '-c', script, 'sh', ...command]];
  }

  /** Runs a tool. @returns its output */
  async tool(command: readonly string[], input = ''): Promise<string> {
    const [file, args] = this.#inside(command);
    return (await execa(file, args, { input })).stdout;
  }

  /** Runs `sluiced` with the node's config. */
  async sluiced(...args: readonly string[]): Promise<CommandResult> {
    return this.sluicedAfter('', ...args);
  }

  /** Runs `sluiced` after a shell text that prepares its mount namespace, such as `mount … &&`. */
  async sluicedAfter(before: string, ...args: readonly string[]): Promise<CommandResult> {
    const config = ['-c', `${this.directory}/sluiced.yaml`];
    const [file, rest] = this.#inside([process.execPath, main, ...args, ...config], before);
    return execa(file, rest, { reject: false });
  }

  /** `sluiced apply` of the bundle `rendered`. */
  async apply(...more: readonly string[]): Promise<CommandResult> {
    return this.sluiced('apply', `${this.directory}/rendered`, ...more);
  }

  /** Starts `sluiced run`; `remove` ends it at the latest. */
  start(before = '', ...more: readonly string[]): ChildProcess {
    return this.startProgram([process.execPath, main, 'run', '-c', `${this.directory}/sluiced.yaml`, ...more], before);
  }

  /** Starts a program inside the namespace, as `start` does. */
  startProgram(command: readonly string[], before = ''): ChildProcess {
    const [file, args] = this.#inside(command, before);
    const child = spawn(file, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    child.stdout?.resume();
    // Read the log, or the pipe fills; a test that needs it listens.
    child.stderr?.resume();
    this.#children.push(child);
    return child;
  }

  async kill(child: ChildProcess, signal: 'SIGKILL' | 'SIGTERM' = 'SIGKILL'): Promise<number | null> {
    const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
    child.kill(signal);
    return ended;
  }

  /** Removes every rule and set, as a reboot does. */
  async forgetRules(backend: string): Promise<void> {
    const empty = (program: string): string =>
      `printf '*nat\\nCOMMIT\\n*filter\\nCOMMIT\\n' | ${program}-${backend}-restore`;
    const sets = ['nft delete table inet sluice', 'ipset destroy'].map((command) => `${command} 2>/dev/null || true`);
    await this.tool(['sh', '-ec', [empty('iptables'), empty('ip6tables'), ...sets].join('\n')]);
  }

  writeConfig(backend: string, more = ''): void {
    const fields = [
      `node: ${sampleNode}`,
      `bundle: ${this.directory}/rendered`,
      `state: ${this.directory}/state`,
      `backend: ${backend}`,
      ...(/^signatures:/m.test(more) ? [] : ['signatures: {policy: none}']),
    ];
    // Probes that pass are believed at once, unless a test configures otherwise.
    const probation = /^probation:/m.test(more) ? '' : 'probation: {seconds: 0}\n';
    writeFileSync(
      `${this.directory}/sluiced.yaml`,
      `apiVersion: sluice.dev/v1alpha1\nkind: SluicedConfig\n${fields.join('\n')}\nscanIntervalSeconds: 1\n${probation}${more}`,
    );
  }

  /** The rules of all tables and both families and the chains of Sluice and kube-proxy, without counters and dates. */
  async rules(backend: string): Promise<string> {
    const families = ['iptables', 'ip6tables'].map((name) => `${name}-${backend}-save`);
    const text = await this.tool(['sh', '-c', families.join(` && echo '${border}' && `)]);
    return text
      .split(border)
      .map((saved) =>
        saved
          .split('\n')
          .filter((line) => /^(-A|:KUBE|:SLU)/.test(line))
          .map((line) => line.replace(/ \[\d+:\d+\]$/, ''))
          .join('\n'),
      )
      .join('\n');
  }

  /**
   * What packets meet in mode nftables: each frontend with its endpoints by the verdict that leads to them. Slots and halves do not count,
   * and neither do elements that no verdict leads to. `''` without the table.
   */
  async frontends(): Promise<string> {
    return printFrontends(await this.tool(['sh', '-c', listTable]));
  }

  /** What packets to Services meet, as text: two are equal if packets are treated alike and nothing else of ours is in the kernel. */
  async forwarding({ backend, mode }: DataPlane): Promise<string> {
    return mode === 'nftables' ? this.frontends() : this.rules(backend);
  }

  /** The endpoints in the kernel, those of a release on probation too: `10.244.0.2:8080`, IPv4, each once and sorted. Those that drain do not count. */
  async endpoints({ backend, mode }: DataPlane): Promise<readonly string[]> {
    const [form, argv] = {
      nftables: [/(?<= : )(10\.244\.\S+) \. (\d+)/g, ['sh', '-c', listTable]] as const,
      ipvs: [/(?<= -r )(10\.244\.\S+):(\d+) -m -w [^0]/g, ['ipvsadm', '-Sn']] as const,
      iptables: [/(?<=--to-destination )(10\.244\.\S+):(\d+)/g, [`iptables-${backend}-save`]] as const,
    }[mode];
    const found = [...(await this.tool(argv)).matchAll(form)];
    return [...new Set(found.map(([, address, port]) => `${address}:${port}`))].toSorted();
  }

  /** The record of the journal; undefined before there is one, and while it is being made. */
  journal(): NodeRecord | undefined {
    try {
      return peek(`${this.directory}/state`);
    } catch {
      return undefined;
    }
  }

  /** What the daemon answers to a GET; undefined without an answer. */
  async get(path = '/status'): Promise<string | undefined> {
    return this.tool(['curl', '-s', '-m', '2', `http://127.0.0.1:10276${path}`]).catch(() => undefined);
  }
}

/** Between the rules of two families. */
const border = '# the other family';
const listTable = 'nft -n list table inet sluice 2>/dev/null || true';

function printFrontends(text: string): string {
  const listing = new NftListing(text);
  return (['4', '6'] as const)
    .flatMap((n) => {
      const trial = [...listing.elements(`trial${n}`).keys()].map((source) => `on probation: ${source}`);
      return [...listing.frontends(n, false), ...trial];
    })
    .toSorted()
    .join('\n');
}
