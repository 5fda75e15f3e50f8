import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { type ChildProcess, spawn } from 'node:child_process';
import { claim, realTool } from '../faults/counted-tools.ts';
import type { DataPlane } from '../netns/sluiced-node.ts';
import { groups, toolsOf, type ToolTrouble } from './cells.ts';

/** The size of /run of the daemon in megabytes: small, as a test fills it. */
const runMegabytes = 4;

/** How another program takes our rules away, by tools that are not in trouble. */
const flushOf = (directory: string, { backend, mode }: DataPlane): string => {
  const tool = (name: string): string => realTool(directory, name);
  if (mode === 'nftables') return `${tool('nft')} flush ruleset`;
  const tables = ['-t nat -F', '-F'].map((args) => `${tool(`iptables-${backend}`)} -w ${args}`);
  return [...tables, ...(mode === 'ipvs' ? [`${tool('ipvsadm')} -C`] : [])].join('; ');
};

/**
 * Works as the tool until a file names a trouble, and the number of the call that is the first to meet it; another file names the call before
 * which all rules are flushed, once. Shell, because the program clears the environment of its tools and starts them by absolute path.
 */
const wrapper = (directory: string, name: string, plane: DataPlane): string => `#!/bin/sh
W=${directory}/trouble
met() { echo "${name} $*" >>"$W/met"; }
# Sets $trouble for a call.
call() {
  trouble=
  [ -e "$W/${name}" ] || [ -e "$W/${name}.flush" ] || return 0
  n=1
  ${claim(`$W/${name}-$n`)}
  if read -r from 2>/dev/null <"$W/${name}.flush" && [ "$n" -ge "$from" ] && mkdir "$W/flushed" 2>/dev/null; then
    met "$* (flushed)"
    (${flushOf(directory, plane)}) >/dev/null 2>&1 3>&- 4>&-
  fi
  read -r trouble from 2>/dev/null <"$W/${name}" && [ "$n" -ge "$from" ] || trouble=
  [ -z "$trouble" ] || met "$*"
}
${name === 'nft' && plane.mode === 'nftables' ? helper(realTool(directory, name)) : ''}
call "$@"
case "$trouble" in
hang) exec sleep 600;;
crash) kill -9 $$;;
garbage) echo '<html>502 Bad Gateway</html>'; exit 0;;
silent) exit 0;;
slow) sleep 2;;
esac
exec ${realTool(directory, name)} "$@"
`;

/** The long-lived `nft -i` is a call for each of its transactions, which a line of its input names. It is the process that was started. */
const helper = (real: string): string => `feed() {
  while IFS= read -r line; do
    case "$line" in include*) call -i;; *) trouble=;; esac
    case "$trouble" in
    hang) exec >/dev/null 2>&1; while [ -e "$W/nft" ]; do sleep 1; done; exit;;
    crash) kill -9 $$; exit;;
    garbage) echo '<html>502 Bad Gateway</html>' >&2; continue;;
    silent) continue;;
    slow) sleep 2;;
    esac
    printf '%s\\n' "$line"
  done
}
if [ "$*" = -i ]; then
  mkfifo "$W/in-$$"
  exec 5<&0
  feed <&5 >"$W/in-$$" 3>&- 4>&- 5>&- &
  exec ${real} -i <"$W/in-$$" 5>&-
fi`;

/** The tools of one node, whose troubles begin and end at command. */
export class TroubledTools {
  readonly #directory: string;
  readonly #plane: DataPlane;
  #holder: ChildProcess | undefined;

  constructor(directory: string, plane: DataPlane) {
    this.#directory = directory;
    this.#plane = plane;
    for (const name of ['bin', 'tools', 'real', 'trouble']) mkdirSync(`${directory}/${name}`);
    for (const name of this.#names) {
      // Over the system's folder lie links: a tool is away as soon as what its link names is.
      symlinkSync(`${directory}/bin/${name}`, `${directory}/tools/${name}`);
      writeFileSync(`${directory}/bin/${name}`, wrapper(directory, name, plane), { mode: 0o755 });
      if (!/^ip6?tables-/.test(name)) cpSync(`/usr/sbin/${name}`, `${directory}/real/${name}`);
    }
  }

  get #names(): ReadonlySet<string> {
    return new Set(groups.flatMap((group) => toolsOf(this.#plane, group)));
  }

  /** Shell text that puts them in place of those of the system. */
  get mount(): string {
    const run = `mount -o remount,size=${runMegabytes}m /run && mkdir /run/sluice && export RUNTIME_DIRECTORY=/run/sluice &&`;
    return `${run} mount -t overlay overlay -o lowerdir=${this.#directory}/tools:/usr/sbin /usr/sbin &&`;
  }

  /**
   * @param daemon the process whose /run is filled, or holds the lock
   * @param from the first call of each tool that meets it
   */
  begin(daemon: number, { group, trouble }: ToolTrouble, from: number): void {
    const run = `/proc/${daemon}/root/run`;
    if (trouble === 'locked') {
      this.#holder = spawn('flock', ['--no-fork', `${run}/xtables.lock`, 'sleep', '600'], { stdio: 'ignore' });
      return;
    }
    if (trouble === 'full') {
      fill(`${run}/filler`);
      return;
    }
    for (const name of toolsOf(this.#plane, group)) {
      const path = `${this.#directory}/trouble/${name}`;
      if (trouble === 'missing') renameSync(this.#path(name), `${this.#path(name)}.away`);
      else if (trouble === 'flushed') writeFileSync(`${path}.flush`, `${from}\n`);
      else writeFileSync(path, `${trouble} ${from}\n`);
    }
  }

  /** Ends all. A hung tool stays: who started it has to end it. */
  end(daemon: number): void {
    this.#holder?.kill('SIGKILL');
    rmSync(`/proc/${daemon}/root/run/filler`, { force: true });
    for (const name of this.#names) {
      if (existsSync(`${this.#path(name)}.away`)) renameSync(`${this.#path(name)}.away`, this.#path(name));
      for (const end of ['', '.flush']) rmSync(`${this.#directory}/trouble/${name}${end}`, { force: true });
    }
  }

  /** The calls that met a trouble, a line each; a tool that is away, waits for a lock or lacks room writes none. */
  get met(): string {
    const path = `${this.#directory}/trouble/met`;
    return existsSync(path) ? readFileSync(path, 'utf8') : '';
  }

  /** Forgets the calls so far, while no trouble goes on. */
  forget(): void {
    for (const name of readdirSync(`${this.#directory}/trouble`))
      if (/^met$|^flushed$|-\d+$/.test(name) && !name.startsWith('in-'))
        rmSync(`${this.#directory}/trouble/${name}`, { recursive: true });
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
