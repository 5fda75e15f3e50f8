import { readFileSync } from 'node:fs';

/** The state of a socket that listens: `TCP_LISTEN` of the kernel's tcp_states.h, as /proc/net/tcp prints it. */
const listen = '0A';

/** Whether any address of this network namespace listens on a port. */
export const isListening = (port: number): boolean =>
  ['tcp', 'tcp6'].some((file) => hasListener(readOrEmpty(`/proc/net/${file}`), port));

/** @param text of /proc/net/tcp: a title, then a line for each socket with its local address, `0100007F:2810`, and its state */
export function hasListener(text: string, port: number): boolean {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  return text.split('\n').some((line) => {
    const [, local = '', , state] = line.trim().split(/ +/);
    return state === listen && local.endsWith(suffix);
  });
}

function readOrEmpty(path: string): string {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return '';
  }
}
