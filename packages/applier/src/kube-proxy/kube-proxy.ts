import type { Hold, KubeProxy } from '../ports/adoption.ts';
import type { Run } from '../kernel/command.ts';
import { processesNamed } from '../kernel/facts.ts';
import { isListening } from './listening.ts';
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
