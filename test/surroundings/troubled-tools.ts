import { cpSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { type ChildProcess, spawn } from 'node:child_process';
import { realTool } from '../faults/counted-tools.ts';
import { type Cell, groups, toolsOf } from './cells.ts';

/** The size of /run of the daemon in megabytes: small, as a test fills it. */
const runMegabytes = 4;

/**
 * Works as the tool until a file names a trouble, and the number of the call that is the first to meet it. Shell, because the program
 * clears the environment of its tools and starts them by absolute path.
 */
const wrapper = (directory: string, name: string): string => `#!/bin/sh
W=${directory}/trouble
[ -e "$W/${name}" ] || exec ${realTool(directory, name)} "$@"
read -r trouble from <"$W/${name}"
n=1
while ! mkdir "$W/${name}-$n" 2>/dev/null; do n=$((n + 1)); done
[ "$n" -ge "$from" ] || exec ${realTool(directory, name)} "$@"
echo "${name} $*" >>"$W/met"
case "$trouble" in
hang) exec sleep 600;;
crash) kill -9 $$;;
garbage) echo '<html>502 Bad Gateway</html>'; exit 0;;
silent) exit 0;;
slow) sleep 2; exec ${realTool(directory, name)} "$@";;
esac
`;

/** The tools of one node, whose trouble begins and ends at command. */
export class TroubledTools {
  readonly #directory: string;
  readonly #cell: Cell;
  #holder: ChildProcess | undefined;

  constructor(directory: string, cell: Cell) {
    this.#directory = directory;
    this.#cell = cell;
    for (const name of ['bin', 'tools', 'real', 'trouble']) mkdirSync(`${directory}/${name}`);
    for (const name of new Set(groups.flatMap((group) => toolsOf(cell.plane, group)))) {
      // Over the system's folder lie links: a tool is away as soon as what its link names is.
      symlinkSync(`${directory}/bin/${name}`, `${directory}/tools/${name}`);
      writeFileSync(`${directory}/bin/${name}`, wrapper(directory, name), { mode: 0o755 });
      if (!/^ip6?tables-/.test(name)) cpSync(`/usr/sbin/${name}`, `${directory}/real/${name}`);
    }
  }

  /** Shell text that puts them in place of those of the system. */
  get mount(): string {
    const run = `mount -o remount,size=${runMegabytes}m /run && mkdir /run/sluice && export RUNTIME_DIRECTORY=/run/sluice &&`;
    return `${run} mount -t overlay overlay -o lowerdir=${this.#directory}/tools:/usr/sbin /usr/sbin &&`;
  }

  /** @param daemon the process whose /run is filled, or holds the lock */
  begin(daemon: number): void {
    const { plane, group, trouble, phase } = this.#cell;
    const run = `/proc/${daemon}/root/run`;
    if (trouble === 'locked') {
      this.#holder = spawn('flock', ['--no-fork', `${run}/xtables.lock`, 'sleep', '600'], { stdio: 'ignore' });
      return;
    }
    if (trouble === 'full') {
      fill(`${run}/filler`);
      return;
    }
    const from = /^call (\d+)$/.exec(phase)?.[1] ?? '1';
    for (const name of toolsOf(plane, group)) {
      if (trouble === 'missing') renameSync(this.#path(name), `${this.#path(name)}.away`);
      else writeFileSync(`${this.#directory}/trouble/${name}`, `${trouble} ${from}\n`);
    }
  }

  /** A hung tool stays: who started it has to end it. */
  end(daemon: number): void {
    this.#holder?.kill('SIGKILL');
    rmSync(`/proc/${daemon}/root/run/filler`, { force: true });
    for (const name of toolsOf(this.#cell.plane, this.#cell.group)) {
      if (existsSync(`${this.#path(name)}.away`)) renameSync(`${this.#path(name)}.away`, this.#path(name));
      rmSync(`${this.#directory}/trouble/${name}`, { force: true });
    }
  }

  /** Whether `met` can tell: a tool that is away, waits for a lock or lacks room writes nothing down. */
  get countsCalls(): boolean {
    return !['missing', 'locked', 'full'].includes(this.#cell.trouble);
  }

  /** The calls that met the trouble, a line each. */
  get met(): string {
    const path = `${this.#directory}/trouble/met`;
    return existsSync(path) ? readFileSync(path, 'utf8') : '';
  }

  #path(name: string): string {
    return `${this.#directory}/bin/${name}`;
  }
}

/** Writes until there is no room. */
function fill(path: string): void {
  try {
    for (;;) writeFileSync(path, Buffer.alloc(4096), { flag: 'a' });
  } catch {
    // It is full.
  }
}
