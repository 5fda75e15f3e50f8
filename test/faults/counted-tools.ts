import { cpSync, mkdirSync, writeFileSync } from 'node:fs';

/** Tools that change the kernel are started through a shell script that counts them. */
const counted = (backend: string): readonly string[] => [
  `iptables-${backend}-restore`,
  `ip6tables-${backend}-restore`,
  'ipset',
  'nft',
  'conntrack',
];

/** The real tool behind a script: copied under another name, or one of the many names of a program. */
export const realTool = (directory: string, name: string): string =>
  /^ip6?tables-/.test(name)
    ? `/usr/sbin/xtables-${name.includes('nft') ? 'nft' : 'legacy'}-multi ${name}`
    : `${directory}/real/${name}`;

/**
 * Shell text that raises `n` to the first number whose file was not there, and makes that file. The shell does it without a process for each
 * number, as every call of a tool counts from 1. It ends where none can be made: the folder may be gone with its test.
 */
export const claim = (file: string): string =>
  `set -C; until { true >"${file}"; } 2>/dev/null || [ ! -e "${file}" ]; do n=$((n + 1)); done; set +C`;

/**
 * Counts the tools of a run and kills one of them, or the program, as `plan` says. Shell, because the program clears the environment
 * of its tools and starts them by absolute path.
 */
const wrapper = (directory: string, name: string): string => `#!/bin/sh
W=${directory}/work
case " $* " in " save "*|*" list "*|*" -L "*|*" --check "*) exec ${realTool(directory, name)} "$@";; esac
n=1
${claim('$W/call-$n')}
fault= tool= call= nth=
[ ! -f "$W/plan" ] || . "$W/plan"
if [ "$fault" = record ]; then
  mkdir "$W/tool-$n"
  echo ${name} >"$W/tool-$n/name"
  readlink /proc/self/ns/net >"$W/tool-$n/net"
  exec strace -qq -o "$W/tool-$n/trace" -e trace=sendto,sendmsg,setsockopt ${realTool(directory, name)} "$@"
fi
[ "$n" = "$tool" ] || exec ${realTool(directory, name)} "$@"
if [ "$fault" = orphan ]; then
  kill -9 "$(cat "$W/pid")"
  exec ${realTool(directory, name)} "$@"
fi
strace -qq -o /dev/null -e trace="$call" -e inject="$call:signal=KILL:when=$nth" ${realTool(directory, name)} "$@"
code=$?
[ "$fault" = tool ] || kill -9 "$(cat "$W/pid")"
exit "$code"
`;

/**
 * Writes the scripts into `tools` of a directory, to be mounted over /usr/sbin, and the programs behind them into `real`. They count in
 * `work`, where `plan` is and `pid` has the program's process.
 */
export function writeCountedTools(directory: string, backend: string): void {
  for (const name of ['work', 'tools', 'real']) mkdirSync(`${directory}/${name}`);
  for (const name of counted(backend)) {
    writeFileSync(`${directory}/tools/${name}`, wrapper(directory, name), { mode: 0o755 });
    if (!/^ip6?tables-/.test(name)) cpSync(`/usr/sbin/${name}`, `${directory}/real/${name}`);
  }
}

/** The calls that a program is recorded by, before its command line. @param file for the trace */
export const recordedBy = (file: string): string =>
  `exec strace -qq -y -s 1 -o ${file} -e trace=openat,write,pwrite64,fsync,rename,unlink,unlinkat,mkdir,rmdir,clone`;
