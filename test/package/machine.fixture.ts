import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { compareText } from '@sluice/netfilter';
import { execa } from 'execa';
import { noRootBecause, rootOf } from './clean-root.fixture.ts';

/** The packages of the machine besides a minimal Debian and the dependencies of ours. */
const debian = ['systemd', 'systemd-sysv', 'conntrack', 'iproute2', 'kmod', 'procps'] as const;

/** The programs that these tests run on the real machine, by their Debian package. */
const programs = { curl: '/usr/bin/curl', procps: '/usr/bin/pgrep', 'util-linux': '/usr/bin/nsenter' } as const;

/** The mount of cgroup v2 on the real machine; systemd makes its own groups below it. */
const cgroups = (): string | undefined => /^\S+ (\S+) cgroup2 /m.exec(readFileSync('/proc/self/mounts', 'utf8'))?.[1];

/** The reason why no machine can be booted here; empty if one can. */
export function noMachineBecause(): string {
  const root = noRootBecause();
  if (root !== '') return root;
  if (cgroups() === undefined) return 'no cgroup2 is mounted: mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified';
  const missing = Object.entries(programs).find(([, path]) => !existsSync(path));
  if (missing) return `${missing[1]} is missing: apt-get install ${missing[0]}`;
  const folder = mkdtempSync(join(tmpdir(), 'sluice-overlay-'));
  try {
    const layers = `lowerdir=/usr,upperdir=${folder}/upper,workdir=${folder}/work`;
    const script = `mkdir upper work root && mount -t overlay overlay -o ${layers} root`;
    const namespaces = ['--net', '--uts', '--ipc', '--cgroup', '--pid', '--mount', '--fork'];
    execFileSync('unshare', [...namespaces, 'sh', '-c', script], { cwd: folder, stdio: 'ignore' });
    return '';
  } catch {
    return `this container may not create namespaces (CAP_SYS_ADMIN), or mount an overlay over ${folder}`;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function startProcess(script: string, folder: string, name: string) {
  return execa('sh', [script, rootOf(debian), folder, name], { reject: false, all: true });
}

/** Makes a symbolic link, with the folders above it. */
export function link(target: string, path: string): void {
  mkdirSync(dirname(path), { recursive: true });
  symlinkSync(target, path);
}

/** The output of a program in the machine, and its exit code. */
export interface ProgramResult {
  readonly exitCode?: number | undefined;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * A Debian of its own with systemd as process 1, on this kernel: `await using machine = await TestMachine.boot()`. Its disk persists from one
 * boot to the next; its network, and with it every rule, does not.
 */
export class TestMachine implements AsyncDisposable {
  readonly #folder = mkdtempSync(join(tmpdir(), 'sluice-machine-'));
  readonly #name = this.#folder.slice(this.#folder.lastIndexOf('/') + 1);
  #process: ReturnType<typeof startProcess> | undefined;
  #init = 0;

  /**
   * @param prepare gets a folder for `/`: its files are on the disk at the first boot
   */
  static async boot(prepare: (disk: string) => void = () => undefined): Promise<TestMachine> {
    const machine = new TestMachine();
    try {
      // The timers would need a network, which is missing.
      for (const name of ['apt-daily', 'apt-daily-upgrade'])
        link('/dev/null', join(machine.#disk, `etc/systemd/system/${name}.timer`));
      writeFileSync(join(machine.#disk, 'etc/hostname'), 'node-a\n');
      prepare(machine.#disk);
      await machine.start();
      return machine;
    } catch (error) {
      await machine[Symbol.asyncDispose]();
      throw error;
    }
  }

  get #disk(): string {
    return join(this.#folder, 'disk');
  }

  /** The machine's `/`, as a path of the real one; only while it runs. */
  get root(): string {
    return `/proc/${this.#init}/root`;
  }

  /** Boots, and waits until systemd has started all its units. */
  async start(): Promise<void> {
    const script = join(import.meta.dirname, 'machine.sh');
    const started = startProcess(script, this.#folder, this.#name);
    this.#process = started;
    const pid = started.pid as number;
    let ended = false;
    void started.then(() => (ended = true));
    await until('the start of process 1', async () => {
      if (ended) throw new Error(`The machine did not start: ${(await started).all}`);
      const child = await execa('pgrep', ['-P', String(pid), '-x', 'systemd'], { reject: false });
      this.#init = Number(child.stdout);
      return this.#init > 0;
    });
    const state = await until('a whole boot', async () => {
      const { stdout } = await this.run('systemctl', 'is-system-running');
      return /^(running|degraded)$/.test(stdout) && stdout;
    });
    if (state !== 'running') throw new Error((await this.run('systemctl', '--failed', '--plain')).stdout);
  }

  /** A power cut: every process ends at once, and the network with its rules. */
  async cut(): Promise<void> {
    this.#process?.kill('SIGKILL');
    await this.#ended();
  }

  /** A clean shutdown. */
  async powerOff(): Promise<void> {
    await this.run('systemctl', 'poweroff');
    await this.#ended();
  }

  /** Waits until the last process has ended: the kernel needs a moment for them, and none may write any more. */
  async #ended(): Promise<void> {
    await this.#process;
    this.#init = 0;
    const events = `${cgroups()}/${this.#name}/cgroup.events`;
    await until(
      'the end of all processes',
      async () => !existsSync(events) || /^populated 0$/m.test(readFileSync(events, 'utf8')),
    );
  }

  /** Runs a program as root, outside of every unit; it is not an error when it fails. */
  async run(...command: readonly string[]): Promise<ProgramResult> {
    const environment = ['PATH=/usr/sbin:/usr/bin:/sbin:/bin', 'LC_ALL=C', 'DEBIAN_FRONTEND=noninteractive'];
    const args = ['-t', String(this.#init), '-m', '-u', '-i', '-n', '-p', '-C', '--', 'env', '-i', ...environment];
    return execa('nsenter', [...args, ...command], { reject: false, stdin: 'ignore', timeout: 60_000 });
  }

  /** Runs a program that must exit with 0. @returns its output */
  async must(...command: readonly string[]): Promise<string> {
    const { exitCode, stdout, stderr } = await this.run(...command);
    if (exitCode !== 0) throw new Error(`${command.join(' ')}: exit code ${exitCode}\n${stdout}\n${stderr}`);
    return stdout;
  }

  /** The command that starts a program of the real machine in this one's network. */
  inNetwork(...command: readonly string[]): readonly [file: string, args: readonly string[]] {
    return ['nsenter', ['-t', String(this.#init), '-n', '--', ...command]];
  }

  /** The body of an HTTP answer; undefined without one within two seconds. */
  async get(url: string): Promise<string | undefined> {
    const { exitCode, stdout } = await execa(...this.inNetwork('curl', '-s', '-m', '2', url), { reject: false });
    return exitCode === 0 ? stdout : undefined;
  }

  /** One property of a unit, from `systemctl show`. */
  async property(unit: string, name: string): Promise<string> {
    return this.must('systemctl', 'show', '--value', '-p', name, unit);
  }

  /** The messages of the journal, one a line, without times. */
  async journal(...matches: readonly string[]): Promise<string> {
    return this.must('journalctl', '--no-pager', '-o', 'cat', ...matches);
  }

  write(path: string, text: string, mode = 0o644): void {
    mkdirSync(dirname(`${this.root}${path}`), { recursive: true });
    writeFileSync(`${this.root}${path}`, text, { mode });
  }

  rename(from: string, to: string): void {
    renameSync(`${this.root}${from}`, `${this.root}${to}`);
  }

  /** The names of the files of a folder, sorted. */
  list(path: string): readonly string[] {
    return readdirSync(`${this.root}${path}`).toSorted(compareText);
  }

  read(path: string): string {
    return readFileSync(`${this.root}${path}`, 'utf8');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.cut();
    await execa('find', [`${cgroups()}/${this.#name}`, '-depth', '-type', 'd', '-exec', 'rmdir', '{}', ';'], {
      reject: false,
    });
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** Polls until `look` gives a value. Throws after twenty seconds, or as many as are given. */
export async function until<T>(
  what: string,
  look: () => Promise<T | undefined | false>,
  timeoutMs = 20_000,
): Promise<T> {
  const end = performance.now() + timeoutMs;
  while (performance.now() < end) {
    const seen = await look();
    if (seen) return seen;
    await sleep(100);
  }
  throw new Error(`timed out after ${timeoutMs / 1000} s, waiting for ${what}`);
}
