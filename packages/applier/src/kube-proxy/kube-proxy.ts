import { readFileSync } from 'node:fs';
import type { Run } from '../kernel/command.ts';
import { processesNamed } from '../kernel/facts.ts';
import type { Hold, KubeProxy } from '../ports/adoption.ts';
import { holdManifest, refuseManifest, releaseManifest } from './manifest.ts';
import { holdUnit, refuseUnit, releaseUnit } from './unit.ts';

/** `--healthz-bind-address` of kube-proxy, by default. */
const healthPort = 10_256;

/** The kube-proxy of this machine. */
export function kubeProxyOf(run: Run): KubeProxy {
  return {
    running() {
      const processes = processesNamed('kube-proxy').map((pid) => `process ${pid}`);
      // k3s contains kube-proxy: there is no process of that name, but its health port.
      if (processes.length > 0 || !isListening(healthPort)) return processes;
      return [`a program that listens on its health port ${healthPort}`];
    },
    async refuses(hold: Hold) {
      if (hold.kind === 'unit') return refuseUnit(hold.unit, run);
      return hold.kind === 'manifest' ? refuseManifest(hold.manifest) : undefined;
    },
    async hold(hold: Hold) {
      if (hold.kind === 'unit') await holdUnit(hold.unit, run);
      if (hold.kind === 'manifest') holdManifest(hold.manifest);
    },
    async release(hold: Hold) {
      if (hold.kind === 'unit') return releaseUnit(hold.unit, run);
      if (hold.kind === 'manifest') releaseManifest(hold.manifest);
      return undefined;
    },
  };
}

/** The state of a socket that listens: `TCP_LISTEN` of the kernel's tcp_states.h, as /proc/net/tcp prints it. */
const listen = '0A';

/** Whether any address of this network namespace listens on a port. */
const isListening = (port: number): boolean =>
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
