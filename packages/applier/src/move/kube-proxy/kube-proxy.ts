import { lstatSync, mkdirSync, readFileSync, renameSync, rmdirSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { Run } from '../../kernel/command.ts';
import { processesNamed } from '../../kernel/facts.ts';
import { readText } from '../../kernel/open-file.ts';
import { findTool } from '../../kernel/tools.ts';
import type { Hold, KubeProxy } from '../../ports/adoption.ts';
import { KernelError } from '../../ports/failure.ts';
import { replaceFile, syncPath } from '../../state/files.ts';

/** Where the administrator of a machine adds to units: systemd.unit(5). */
const unitFolder = '/etc/systemd/system';
const dropIn = 'sluiced-adopt.conf';

/** A condition that never holds: the unit stays enabled or not as it is, and does not start for any other unit. */
const dropInText = `# Written by \`sluiced adopt\`; \`sluiced adopt --undo\` removes it.
[Unit]
ConditionPathExists=!/
`;

/** Why a unit cannot be stopped alone, or kept from starting, in words; undefined: it can. */
async function refuseUnit(unit: string, run: Run): Promise<string | undefined> {
  const file = findTool('systemctl');
  if (file === undefined) return 'systemctl is not installed';
  const args = ['show', '--property=LoadState,BoundBy,DropInPaths', '--', unit];
  const { exitCode, stdout, why } = await run({ file, args });
  if (exitCode !== 0) return `systemctl show ${unit}: ${why}`;
  const { LoadState = '', BoundBy = '', DropInPaths = '' } = propertiesIn(stdout);
  if (LoadState === 'not-found' || LoadState === '') return `systemd knows no unit ${unit}`;
  if (BoundBy !== '') return `BindsTo= binds ${BoundBy} to ${unit}, and would stop it, too`;
  const later = DropInPaths.split(' ').find((path) => basename(path) > dropIn && resetsConditions(path));
  return later === undefined
    ? undefined
    : `${later} removes all conditions of ${unit}, also that of ${dropIn}; give it a name that comes before that`;
}

/** Lines `NAME=value`, as `systemctl show` prints them. */
const propertiesIn = (shown: string): { readonly [name in string]?: string } =>
  Object.fromEntries(shown.split('\n').map((line) => [line.replace(/=.*/, ''), line.replace(/^[^=]*=?/, '')]));

/** Whether a file of a unit removes the conditions of the files before it: an empty one of any kind does, by systemd.unit(5). */
function resetsConditions(path: string): boolean {
  try {
    return /^[ \t]*Condition\w+[ \t]*=[ \t]*$/m.test(readFileSync(path, 'utf8'));
  } catch {
    return false;
  }
}

/**
 * Stops a unit and keeps it from starting. A unit file in /etc cannot be masked, so it gets a condition, which stays over boots. Units that
 * require it go on, and start without it: a condition that does not hold is no failure.
 * @throws KernelError
 */
async function holdUnit(unit: string, run: Run): Promise<void> {
  const folder = join(unitFolder, `${unit}.d`);
  try {
    mkdirSync(folder, { recursive: true });
    replaceFile(join(folder, dropIn), dropInText);
  } catch (error) {
    throw new KernelError(`hold of ${unit}`, (error as Error).message, 'short');
  }
  await systemctl(['daemon-reload'], run);
  // Otherwise those that require it would be stopped with it.
  await systemctl(['stop', '--job-mode=ignore-dependencies', unit], run);
}

/**
 * Lets a unit start again, and starts it.
 * @returns why it did not start
 * @throws KernelError where it is kept from starting still
 */
async function releaseUnit(unit: string, run: Run): Promise<string | undefined> {
  const folder = join(unitFolder, `${unit}.d`);
  try {
    removeDropIn(folder);
  } catch (error) {
    throw new KernelError(`release of ${unit}`, (error as Error).message, 'short');
  }
  await systemctl(['daemon-reload'], run);
  try {
    await systemctl(['start', unit], run);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

/**
 * Removes the condition, and the folder if nothing else is in it. A folder that stays, such as a link to another one, keeps no unit from
 * starting.
 * @throws if the condition is still there
 */
export function removeDropIn(folder: string): void {
  rmSync(join(folder, dropIn), { force: true });
  try {
    rmdirSync(folder);
  } catch {
    // It has other files, is no folder, or is gone.
  }
}

async function systemctl(args: readonly string[], run: Run): Promise<void> {
  const file = findTool('systemctl');
  if (file === undefined) throw new KernelError('systemctl', 'it is not installed', 'missing');
  // systemd waits 90 s for a unit to stop before it kills it: DefaultTimeoutStopSec of systemd-system.conf(5).
  const { exitCode, why } = await run({ file, args: ['--no-ask-password', ...args], timeoutMs: 100_000 });
  if (exitCode !== 0)
    throw new KernelError(`systemctl ${args.join(' ')}`, why, exitCode === undefined ? 'killed' : 'refused');
}

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
  ['tcp', 'tcp6'].some((file) => hasListener(readText(`/proc/net/${file}`) ?? '', port));

/** @param text of /proc/net/tcp: a title, then a line for each socket with its local address, `0100007F:2810`, and its state */
export function hasListener(text: string, port: number): boolean {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  return text.split('\n').some((line) => {
    const [, local = '', , state] = line.trim().split(/ +/);
    return state === listen && local.endsWith(suffix);
  });
}

/**
 * Where the manifest of a static pod waits: the kubelet ignores names that begin with a dot (`pkg/kubelet/config/file.go`, `file_linux.go`),
 * and stops a pod whose manifest is gone. In the same folder it is one rename, there and back, which no crash can tear.
 */
export const heldPath = (manifest: string): string => join(dirname(manifest), `.sluiced-adopt.${basename(manifest)}`);

/** Why there is no manifest to hide; undefined: there is one, or it is hidden already. */
export function refuseManifest(manifest: string): string | undefined {
  const stats =
    lstatSync(manifest, { throwIfNoEntry: false }) ?? lstatSync(heldPath(manifest), { throwIfNoEntry: false });
  if (!stats) return `there is no ${manifest}`;
  return stats.isFile() || stats.isSymbolicLink() ? undefined : `${manifest} is no file`;
}

/**
 * Hides the manifest from the kubelet; also one that was written again after an earlier call, such as by RKE2 when it starts.
 * @throws KernelError where there is none
 */
export function holdManifest(manifest: string): void {
  if (exists(manifest) || !exists(heldPath(manifest))) move(manifest, heldPath(manifest));
}

/**
 * Gives the manifest back to the kubelet. One that was written again meanwhile stays, and the hidden one is removed.
 * @throws KernelError
 */
export function releaseManifest(manifest: string): void {
  const held = heldPath(manifest);
  if (!exists(held)) return;
  if (!exists(manifest)) return move(held, manifest);
  try {
    rmSync(held, { force: true });
  } catch (error) {
    throw new KernelError(`removal of ${held}`, (error as Error).message, 'short');
  }
}

const exists = (path: string): boolean => lstatSync(path, { throwIfNoEntry: false }) !== undefined;

function move(from: string, to: string): void {
  try {
    renameSync(from, to);
    syncPath(dirname(to));
  } catch (error) {
    throw new KernelError(`rename of ${from}`, (error as Error).message, 'short');
  }
}
