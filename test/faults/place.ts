import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { programPath } from '@sluice/testing';
import { execa } from 'execa';
import { peek } from '../../packages/applier/src/state/peek.ts';
import { sampleNode } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { recordedBy, writeCountedTools } from './counted-tools.ts';
import type { NodeSnapshot } from './invariants.ts';
import type { Point } from './points.ts';

/** A rule store, a layout and a mode. */
export interface NodeKind {
  readonly backend: 'nft' | 'legacy';
  readonly layout: 'tree' | 'flat';
  readonly mode: 'iptables' | 'nftables';
  /** Mode nftables: the elements of endpoints count connections, and the node's releases have the kernel count bytes. */
  readonly isCounting?: true;
}

/** How one run of `sluiced` ended, and the state of the node right after it and after the next process. */
export interface FaultRun {
  readonly exitCode: number;
  readonly output: string;
  readonly after: NodeSnapshot;
  readonly recoveryExitCode: number;
  readonly recoveryOutput: string;
  readonly recoverySeconds: number;
  readonly recovered: NodeSnapshot;
}

/** The state that a run begins with. */
export interface NodeTemplate {
  /** The state directory; absent on a new node. */
  readonly directory: string;
}

/**
 * Stops all writes of a file system, its log included: `FS_IOC_SHUTDOWN` with `NOLOGFLUSH`, as ext4 and xfs implement it; no common
 * tool does it.
 */
const goesDown = (path: string): string =>
  `perl -e 'open(my $at, "<", shift) or die; my $how = pack("L", 2); ioctl($at, 0x8004587D, $how) or die "$!"' ${path}`;

/**
 * A node that can be recreated in the same state: namespaces of its own with a state directory in memory, whose paths are the
 * same in every run. Nothing of it is left when the command ends.
 */
export class FaultPlace {
  readonly directory = mkdtempSync(`${tmpdir()}/slf-`);
  readonly state = `${this.directory}/work/state`;
  readonly #kind: NodeKind;
  #runs = 0;

  private constructor(kind: NodeKind) {
    this.#kind = kind;
  }

  static async make(kind: NodeKind): Promise<FaultPlace> {
    const place = new FaultPlace(kind);
    const { directory } = place;
    mkdirSync(`${directory}/bundles`);
    // Once: a second write would truncate it while another run reads it.
    writeFileSync(`${directory}/foreign`, foreign);
    writeFileSync(`${directory}/foreign-tables`, foreignTables);
    writeCountedTools(directory, kind.backend);
    return place;
  }

  remove(): void {
    rmSync(this.directory, { recursive: true, force: true });
  }

  /** Writes a config. @returns its path */
  config(name: string, more = ''): string {
    const path = `${this.directory}/${name}.yaml`;
    const { backend, layout } = this.#kind;
    const fields = [
      'apiVersion: sluice.dev/v1alpha1\nkind: SluicedConfig',
      `node: ${sampleNode}`,
      `bundle: ${this.directory}/bundles/none`,
      `state: ${this.state}`,
      `backend: ${backend}`,
      `layout: ${layout}`,
      'signatures: {policy: none}',
      'probation: {seconds: 0}',
      more,
    ];
    writeFileSync(path, fields.join('\n'));
    return path;
  }

  /** Runs `sluiced`, with a fault, from a template; then `sluiced boot` as the next process. */
  async run(from: NodeTemplate | undefined, config: string, args: readonly string[], point?: Point): Promise<FaultRun> {
    const out = this.#out();
    await this.#inside(out, from, config, [
      this.#sluiced(config, args, point, out),
      this.#see('after'),
      this.#boot(config),
    ]);
    const read = (name: string): string => readFileSync(`${out}/${name}`, 'utf8').trim();
    const ran = {
      exitCode: Number(read('code')),
      output: read('output'),
      after: this.#snapshot(`${out}/after`),
      recoveryExitCode: Number(read('boot-code')),
      recoveryOutput: read('boot-output'),
      recoverySeconds: Number(read('boot-ms')) / 1000,
      recovered: this.#snapshot(`${out}/recovered`),
    };
    rmSync(out, { recursive: true });
    return ran;
  }

  /**
   * The power fails when the program reaches a point: the data that the file system has handed to its disk by then are left, and the
   * machine starts again without a rule of Sluice. @returns how `sluiced boot` ended, and the state of the node after it
   */
  async cutPower(
    disk: Disk,
    {
      from,
      config,
      args,
    }: { readonly from: NodeTemplate | undefined; readonly config: string; readonly args: readonly string[] },
    point: Point,
  ): Promise<{ readonly exitCode: number; readonly output: string; readonly recovered: NodeSnapshot }> {
    const out = this.#out();
    const { directory, state } = this;
    const [image, left] = [`${directory}/work/disk`, `${directory}/work/left`];
    const boot = [`OUT=${out}`, `set -e`, ...this.#load(undefined), this.#boot(config)].join('\n');
    const lines = [
      `truncate -s ${disk.megabytes}M ${image}`,
      `${disk.make} ${image}`,
      ...(from ? [`mv ${state} ${state}-before`] : []),
      `mkdir ${state}`,
      `mount -o loop ${image} ${state}`,
      ...(from ? [`cp -a ${state}-before/. ${state}/`] : []),
      `sync -f ${state}`,
      this.#sluiced(config, args, point, out),
      // A file system that kept writing during the copy would leave a disk of no single moment.
      goesDown(state),
      `cp --sparse=always ${image} ${left}`,
      `umount ${state}`,
      `mount -o loop ${left} ${state}`,
      `unshare --net sh -c '${boot.replaceAll("'", `'\\''`)}'`,
    ];
    await this.#inside(out, from, config, lines);
    const read = (name: string): string => readFileSync(`${out}/${name}`, 'utf8').trim();
    const ended = { exitCode: Number(read('boot-code')), output: read('boot-output') };
    const recovered = this.#snapshot(`${out}/recovered`);
    rmSync(out, { recursive: true });
    return { ...ended, recovered };
  }

  /** Runs without a fault and records the calls. @returns the trace of the program, and name and trace of every tool */
  async record(
    from: NodeTemplate | undefined,
    config: string,
    args: readonly string[],
  ): Promise<{ readonly program: string; readonly tools: readonly (readonly [string, string])[] }> {
    const out = this.#out();
    const program = recordedBy(`${out}/program`);
    const plan = `echo fault=record >${this.directory}/work/plan`;
    await this.#inside(out, from, config, [
      plan,
      this.#start(program, config, args),
      `cp -r ${this.directory}/work/tool-* ${out}/`,
    ]);
    const tools: (readonly [string, string])[] = [];
    for (let n = 1; existsSync(`${out}/tool-${n}`); n++) {
      const of = (name: string): string => readFileSync(`${out}/tool-${n}/${name}`, 'utf8');
      tools.push([of('name').trim(), of('trace')]);
    }
    const trace = readFileSync(`${out}/program`, 'utf8');
    rmSync(out, { recursive: true });
    return { program: trace, tools };
  }

  /** Runs, and keeps the result as a template, together with the state of the node. */
  async keep(
    from: NodeTemplate | undefined,
    config: string,
    args: readonly string[],
    point?: Point,
    exitCode = '0',
  ): Promise<{ readonly template: NodeTemplate; readonly snapshot: NodeSnapshot }> {
    const out = this.#out();
    await this.#inside(out, from, config, [
      this.#sluiced(config, args, point, out),
      this.#see('after'),
      `cp -a ${this.state} ${out}/state`,
    ]);
    const [code, output] = ['code', 'output'].map((name) => readFileSync(`${out}/${name}`, 'utf8').trim());
    if (!point && code !== exitCode) throw new Error(`sluiced ${args.join(' ')} exited with ${code}: ${output}`);
    return { template: { directory: out }, snapshot: this.#snapshot(`${out}/after`) };
  }

  /** The state of a node before anything was done. */
  async bare(): Promise<NodeSnapshot> {
    const out = this.#out();
    await this.#inside(out, undefined, '', [this.#see('after')]);
    return this.#snapshot(`${out}/after`);
  }

  #out(): string {
    const out = `${this.directory}/out-${this.#runs++}`;
    mkdirSync(out);
    return out;
  }

  #sluiced(config: string, args: readonly string[], point: Point | undefined, out: string): string {
    const plan = `${this.directory}/work/plan`;
    if (point?.at === 'tool') {
      const { fault, tool, call, nth } = point;
      return `echo 'fault=${fault} tool=${tool} call=${call} nth=${nth}' >${plan}\n${this.#start('exec', config, args)}`;
    }
    if (!point) return this.#start('exec', config, args);
    const { call, path, nth, fault } = point;
    const what = fault === 'kill' ? 'signal=KILL' : `error=${fault.replace('+', '')}`;
    const when = `${nth}${fault.endsWith('+') ? '+' : ''}`;
    const of = path === undefined ? '' : ` -P ${path}`;
    return this.#start(
      `exec strace -qq -o ${out}/trace${of} -e trace=${call} -e inject=${call}:${what}:when=${when}`,
      config,
      args,
    );
  }

  /** Waits for tools that outlive the program: they share its lock. */
  #start(before: string, config: string, args: readonly string[]): string {
    const { directory } = this;
    const command = `${before} ${process.execPath} ${programPath('sluiced')} ${args.join(' ')} -c ${config}`;
    return [
      'code=0',
      `sh -c 'echo $$ >${directory}/work/pid; ${command}' >$OUT/output 2>&1 || code=$?`,
      'echo $code >$OUT/code',
      `[ ! -e ${this.state}/lock ] || flock -w 20 ${this.state}/lock true`,
    ].join('\n');
  }

  #boot(config: string): string {
    const { directory } = this;
    return [
      `rm -f ${directory}/work/plan`,
      'code=0',
      'begin=$(date +%s%N)',
      `${process.execPath} ${programPath('sluiced')} boot -c ${config} >$OUT/boot-output 2>&1 || code=$?`,
      'echo $(( ($(date +%s%N) - begin) / 1000000 )) >$OUT/boot-ms',
      'echo $code >$OUT/boot-code',
      this.#see('recovered'),
    ].join('\n');
  }

  #see(name: string): string {
    const { backend } = this.#kind;
    const to = `$OUT/${name}`;
    return [
      `mkdir -p ${to}`,
      `iptables-${backend}-save >${to}/save4`,
      `ip6tables-${backend}-save >${to}/save6`,
      `ipset save >${to}/sets`,
      `cat /proc/sys/net/netfilter/nf_conntrack_acct >${to}/accounting`,
      `nft -n list table inet sluice >${to}/table 2>/dev/null || true`,
      `nft -n list table ip sluice >${to}/foreign-tables`,
      `! [ -e ${this.state}/journal ] || cp ${this.state}/journal ${to}/journal`,
      `! [ -d ${this.state} ] || find ${this.state} >${to}/files`,
    ].join('\n');
  }

  #snapshot(directory: string): NodeSnapshot {
    const read = (name: string): string => {
      const path = `${directory}/${name}`;
      return existsSync(path) ? readFileSync(path, 'utf8').trim() : '';
    };
    return {
      saves: [read('save4'), read('save6')],
      sets: read('sets'),
      accounting: read('accounting'),
      table: read('table'),
      foreignTables: read('foreign-tables'),
      journal: peek(directory),
      files: read('files'),
    };
  }

  /** The sets and rules of a template, or those of a machine that has just started. */
  #load(from: NodeTemplate | undefined): readonly string[] {
    const { directory } = this;
    const { backend } = this.#kind;
    const restore = (version: string, save: string): string =>
      `/usr/sbin/xtables-${backend}-multi ip${version}tables-${backend}-restore <${save}`;
    const foreignTables = `${directory}/real/nft -f ${directory}/foreign-tables`;
    if (!from) return [foreignTables, restore('', `${directory}/foreign`), restore('6', `${directory}/foreign`)];
    const after = `${from.directory}/after`;
    return [
      foreignTables,
      `${directory}/real/ipset restore <${after}/sets`,
      restore('', `${after}/save4`),
      restore('6', `${after}/save6`),
      `${directory}/real/nft -f ${after}/table`,
    ];
  }

  /** Runs lines of shell in a new node in the state of the template. */
  async #inside(out: string, from: NodeTemplate | undefined, config: string, lines: readonly string[]): Promise<void> {
    const { directory } = this;
    const script = [
      'set -e',
      `OUT=${out}`,
      'ip link set lo up',
      'mount -t tmpfs tmpfs /run',
      `mount -t overlay overlay -o lowerdir=${directory}/tools:/usr/sbin /usr/sbin`,
      `mount -t tmpfs tmpfs ${directory}/work`,
      ...(from ? [`cp -a ${from.directory}/state ${this.state}`] : []),
      ...this.#load(from),
      ...lines,
    ].join('\n');
    const unshare = ['--net', '--mount', '--pid', '--fork', '--mount-proc', '--kill-child'];
    const { exitCode, stderr } = await execa('unshare', [...unshare, 'sh', '-c', script], {
      reject: false,
      timeout: runTimeoutMs,
      stdin: 'ignore',
    });
    if (exitCode !== 0) throw new Error(`Cannot create the node for ${config}: ${stderr}`);
  }
}

/** A file system for the state directory. */
export interface Disk {
  readonly name: string;
  readonly megabytes: number;
  /** The command that makes it in a file. */
  readonly make: string;
}

/** Foreign rules in the kernel: they must survive every fault. */
const foreign = `*nat
:CNI-X - [0:0]
-A CNI-X -j RETURN
-A POSTROUTING -o cni0 -j CNI-X
COMMIT
*filter
-A FORWARD -i cni0 -j DROP
COMMIT
`;

/** A table of the same name in another family, with sets of the same names. */
const foreignTables = `table ip sluice {
  set trial4 { type ipv4_addr; elements = { 192.0.2.7 }; }
  map svc4 { type ipv4_addr . inet_proto . inet_service : verdict; elements = { 10.96.0.11 . 6 . 80 : accept }; }
  chain services4 { ip daddr . meta l4proto . th dport vmap @svc4; }
}
`;

const runTimeoutMs = 120_000;
