import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { peek } from '../../packages/applier/src/state/peek.ts';
import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { AdoptNode, type ProxyMode } from '../netns/adopt-node.ts';
import { addPods, Clients } from '../netns/clients.ts';
import type { ExecResult } from '../netns/cluster-host.ts';
import { until } from '../netns/until.ts';
import { recordedBy, writeCountedTools } from './counted-tools.ts';
import { type Point, programPoints, toolPoints } from './points.ts';

/** From kube-proxy's mode and store to Sluice's mode beside that store. */
export interface Move {
  readonly proxy: ProxyMode;
  readonly backend: 'nft' | 'legacy';
  readonly mode: 'iptables' | 'nftables';
}

/** The directory of the tools that are counted. */
const countedIn = ({ directory }: AdoptNode): string => `${directory}/counted`;

/** The directory of a node in a point, which is another one on each node. */
const anyDirectory = '@';

/**
 * A node with a kube-proxy and clients that open connections all the time, on which `sluiced` is killed at a point. It is the same before
 * and after a move there and back, so that one node is enough for many points.
 */
export class MovingNode {
  readonly node: AdoptNode;
  readonly #move: Move;
  readonly #clients: Clients;
  /** Rules and tables of kube-proxy alone. */
  readonly #before: string;

  private constructor(node: AdoptNode, move: Move, clients: Clients, before: string) {
    this.node = node;
    this.#move = move;
    this.#clients = clients;
    this.#before = before;
  }

  /** With a stand-in for kube-proxy. */
  static async start(move: Move): Promise<MovingNode> {
    const node = await AdoptNode.start();
    await addPods(node);
    await node.startKubeProxy(move.proxy);
    node.writeConfig(move.backend);
    const services = { 'shop/web': [1, 2], 'shop/cart': [3] };
    writeBundle(`${node.directory}/rendered`, sampleBundle({ services, families: ['ipv4', 'ipv6'], mode: move.mode }));
    return MovingNode.on(node, move);
  }

  /** @param node with a kube-proxy, pods, a config and a bundle */
  static async on(node: AdoptNode, move: Move): Promise<MovingNode> {
    mkdirSync(countedIn(node));
    writeCountedTools(countedIn(node), move.backend);
    const clients = await Clients.start(node);
    return new MovingNode(node, move, clients, await kernelText(node, move));
  }

  close(): Promise<void> {
    return this.node.close();
  }

  /** Runs `sluiced adopt`, or with `--undo`, until a point, or to its end. */
  async run(isBack: boolean, point?: Point): Promise<ExecResult> {
    const { directory } = this.node;
    if (!point) return this.#start(isBack, '', 'exec');
    if (point.at === 'tool') {
      const { fault, tool, call, nth } = point;
      return this.#start(isBack, `fault=${fault} tool=${tool} call=${call} nth=${nth}`, 'exec');
    }
    const { call, path, nth } = point;
    const of = path === undefined ? '' : ` -P ${path.replace(anyDirectory, directory)}`;
    const strace = `strace -qq -o /dev/null${of} -e trace=${call} -e inject=${call}:signal=KILL:when=${nth}`;
    return this.#start(isBack, '', `exec ${strace}`);
  }

  /**
   * Runs it to its end. @returns a point before each effect: a record of the journal, a rename of the manifest, a tool that changes the
   * node's kernel, which is killed before the program. Rehearsals have a kernel of their own.
   */
  async record(isBack: boolean): Promise<readonly Point[]> {
    const { directory } = this.node;
    const ran = await this.#start(isBack, 'fault=record', recordedBy(`${directory}/trace`));
    if (ran.exitCode !== 0) throw new Error(`Cannot record: ${ran.stdout}${ran.stderr}`);
    const trace = readFileSync(`${directory}/trace`, 'utf8').replaceAll(directory, anyDirectory);
    const records = programPoints(trace, `${anyDirectory}/state/`).filter(({ call }) => call === 'pwrite64');
    const renames = programPoints(trace, `${anyDirectory}/manifests/`).filter(({ call }) => call === 'rename');
    const net = (await this.node.tool(['readlink', '/proc/self/ns/net'])).trim();
    const tools: Point[] = [];
    for (let n = 1; existsSync(`${countedIn(this.node)}/work/tool-${n}`); n++) {
      const of = (name: string): string =>
        readFileSync(`${countedIn(this.node)}/work/tool-${n}/${name}`, 'utf8').trim();
      if (of('net') === net) tools.push(...effectOf(toolPoints(n, of('name'), of('trace')), of('name')));
    }
    return [...records, ...renames, ...tools];
  }

  /** In a mount namespace of its own, where its tools are counted, and those of kube-proxy are not. */
  async #start(isBack: boolean, plan: string, before: string): Promise<ExecResult> {
    const { directory } = this.node;
    const counted = countedIn(this.node);
    const args = isBack ? ['--undo', '--wait', '60'] : ['--manifest', this.node.manifest, '--without-parity'];
    const lines = [
      'set -e',
      `mount -t overlay overlay -o lowerdir=${counted}/tools:/usr/sbin /usr/sbin`,
      `rm -rf ${counted}/work/*`,
      `echo '${plan}' >${counted}/work/plan`,
      'code=0',
      `sh -c 'echo $$ >${counted}/work/pid; ${before} ${this.node.command('adopt', ...args).join(' ')}' || code=$?`,
      // Tools that outlive the program share its lock.
      `[ ! -e ${directory}/state/lock ] || flock -w 20 ${directory}/state/lock true`,
      'exit $code',
    ];
    return this.node.run(['unshare', '--mount', 'sh', '-c', lines.join('\n')]);
  }

  /**
   * kube-proxy is written last: it runs beneath Sluice, stops, and starts again without its jumps, which it inserts before Sluice's. The
   * tables of mode nftables are made again by each start.
   */
  async putProxyLast(): Promise<void> {
    const { node } = this;
    const [shown, hidden] = [node.manifest, `${node.directory}/away`];
    await node.sluiced('adopt', '--daemonset', '--without-parity', '--wait', '0');
    await node.tool(['mv', shown, hidden]);
    await until('kube-proxy has stopped', async () => (await node.proxies()) === 0);
    if (this.#move.proxy !== 'nftables') await node.tool(['sh', '-c', withoutJumps(this.#move.backend)]);
    rmSync(`${node.directory}/synced`);
    await node.tool(['mv', hidden, shown]);
    await until('kube-proxy has written its rules', async () => existsSync(`${node.directory}/synced`));
  }

  /** What is wrong at this moment: each frontend must be served, no connection lost, the state readable. */
  async wrong(): Promise<readonly string[]> {
    const found: string[] = [];
    const text = await kernelText(this.node, this.#move);
    const isOurs = text.includes('-j SLUICE-SERVICES') || text.includes('table inet sluice');
    const isProxys = text.includes('-j KUBE-SERVICES') || text.includes('table ip kube-proxy');
    if (!isOurs && !isProxys) found.push('neither rules of Sluice nor of kube-proxy stand');
    try {
      peek(`${this.node.directory}/state`);
    } catch (error) {
      found.push(`the state cannot be read: ${String(error)}`);
    }
    await this.#clients.goOn().catch((error: unknown) => found.push(String(error)));
    return [...found, ...this.#clients.lost()];
  }

  /** What is wrong once Sluice serves alone. */
  async wrongAdopted(): Promise<readonly string[]> {
    const text = await kernelText(this.node, this.#move);
    const { open, adoption } = this.node.journal() ?? {};
    return [
      ...(await this.wrong()),
      ...(/KUBE-S(VC|EP|ERVICES)|kube-proxy/.test(text) ? [`rules of kube-proxy are left:\n${text}`] : []),
      ...((await this.node.proxies()) === 0 ? [] : ['kube-proxy runs']),
      ...(open === null && adoption?.goal === 'sluice' ? [] : ['the move is not finished']),
      // Generation 0 has nothing of a kube-proxy in mode nftables.
      ...(adoption?.isStored || this.#move.proxy === 'nftables' ? [] : ['generation 0 has no rules of kube-proxy']),
    ];
  }

  /** What is wrong once kube-proxy serves alone. */
  async wrongUndone(): Promise<readonly string[]> {
    const text = await kernelText(this.node, this.#move);
    const { open, current, adoption } = this.node.journal() ?? {};
    return [
      ...(await this.wrong()),
      ...linesBeside(this.#before, text).map((line) => `is missing: ${line}`),
      ...linesBeside(text, this.#before).map((line) => `was not there before: ${line}`),
      ...((await this.node.proxies()) > 0 ? [] : ['kube-proxy does not run']),
      ...((open ?? current ?? adoption) ? ['the undo is not finished'] : []),
    ];
  }

  /** What is wrong after `sluiced boot`. */
  async wrongAfterBoot(): Promise<readonly string[]> {
    const { exitCode, stderr } = await this.node.sluiced('boot');
    return [...(exitCode === 0 ? [] : [`exit code ${exitCode}: ${stderr}`]), ...(await this.wrong())];
  }

  /** What is wrong while `sluiced run` has looked around, and after its end. */
  async wrongBesideDaemon(): Promise<readonly string[]> {
    const { node } = this;
    const daemon = node.startProgram(node.command('run'));
    const answers = ['curl', '-s', '-m', '2', '-o', '/dev/null', 'http://127.0.0.1:10276/status'];
    await until('sluiced answers', async () => (await node.run(answers)).exitCode === 0);
    const found = await this.wrong();
    await daemon.stop();
    return [...found, ...(await this.wrong())];
  }

  /** Removes the state directory, as on a node that never had Sluice. */
  forgetState(): void {
    rmSync(`${this.node.directory}/state`, { recursive: true, force: true });
  }
}

/** The first call of a tool that may change something; of iptables and nft others only read. */
function effectOf(points: readonly Point[], name: string): readonly Point[] {
  const isRead = (call: string): boolean => call === 'sendto' && /tables|nft/.test(name);
  return points.filter(({ call, fault }) => fault === 'both' && !isRead(call)).slice(0, 1);
}

const withoutJumps = (backend: string): string =>
  ['iptables', 'ip6tables']
    .flatMap((tool) =>
      ['PREROUTING', 'OUTPUT'].map(
        (hook) =>
          `${tool}-${backend} -w -t nat -D ${hook} -m comment --comment "kubernetes service portals" -j KUBE-SERVICES`,
      ),
    )
    .join(' && ');

/** The lines of a text that another one does not have, or has less often. */
function linesBeside(text: string, other: string): readonly string[] {
  const rest = other.split('\n');
  return text.split('\n').filter((line) => {
    const at = rest.indexOf(line);
    if (at >= 0) rest.splice(at, 1);
    return at < 0;
  });
}

/** Rules and tables, in the order of their text: chains that are written again are listed later. */
async function kernelText(node: AdoptNode, { backend }: Move): Promise<string> {
  const lines = [...(await node.rules(backend)).split('\n'), ...(await node.tables())];
  return lines.toSorted().join('\n');
}
