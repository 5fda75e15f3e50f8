import { execaSync } from 'execa';

/**
 * Runs a shell script in network and mount namespaces of its own, with an empty /run, so that neither rules nor the lock of
 * iptables are shared with the machine. The namespaces end with the script.
 * @returns its output. Throws when a command fails
 */
export function inScratchNamespace(script: string): string {
  const setUp = 'set -e\nmount -t tmpfs tmpfs /run\n';
  const { stdout } = execaSync('unshare', ['--net', '--mount', 'sh', '-s'], { input: setUp + script, timeout: 30_000 });
  return stdout;
}

/** A shell command that feeds `input` to `command`. */
export function feed(command: string, input: string): string {
  return input === '' ? '' : `${command} <<'END-OF-INPUT'\n${input}END-OF-INPUT\n`;
}
