import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { KernelError } from '../ports/kernel.ts';
import { writeDurably } from '../state/files.ts';
import type { Run } from '../kernel/command.ts';
import { findTool } from '../kernel/tools.ts';

/** Where the administrator of a machine adds to units: systemd.unit(5). */
const unitFolder = '/etc/systemd/system';
const dropIn = 'sluiced-adopt.conf';

/** A condition that never holds: the unit stays enabled or not as it is, and does not start for any other unit. */
const text = `# Written by \`sluiced adopt\`; \`sluiced adopt --undo\` removes it.
[Unit]
ConditionPathExists=!/
`;

/** The name of a service of systemd, without a template's parameter: no path can be made of it. */
export const isUnitName = (name: string): boolean => /^[A-Za-z0-9][-A-Za-z0-9_.]{0,200}\.service$/.test(name);

/** Why a unit cannot be stopped, in words; undefined: systemd knows it. */
export async function refuseUnit(unit: string, run: Run): Promise<string | undefined> {
  const file = findTool('systemctl');
  if (file === undefined) return 'systemctl is not installed';
  const { exitCode, stdout, why } = await run({ file, args: ['show', '--property=LoadState', '--value', '--', unit] });
  if (exitCode !== 0) return `systemctl show ${unit}: ${why}`;
  const state = stdout.trim();
  return state === 'not-found' || state === '' ? `systemd knows no unit ${unit}` : undefined;
}

/**
 * Stops a unit and keeps it from starting. A unit file in /etc cannot be masked, so it gets a condition, which stays over boots.
 * @throws KernelError
 */
export async function holdUnit(unit: string, run: Run): Promise<void> {
  const folder = join(unitFolder, `${unit}.d`);
  try {
    mkdirSync(folder, { recursive: true });
    writeDurably(join(folder, dropIn), text);
  } catch (error) {
    throw new KernelError(`hold of ${unit}`, (error as Error).message);
  }
  await systemctl(['daemon-reload'], run);
  await systemctl(['stop', unit], run);
}

/**
 * Lets a unit start again, and starts it.
 * @returns why it did not start
 * @throws KernelError where it is kept from starting still
 */
export async function releaseUnit(unit: string, run: Run): Promise<string | undefined> {
  try {
    rmSync(join(unitFolder, `${unit}.d`, dropIn), { force: true });
  } catch (error) {
    throw new KernelError(`release of ${unit}`, (error as Error).message);
  }
  await systemctl(['daemon-reload'], run);
  try {
    await systemctl(['start', unit], run);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

async function systemctl(args: readonly string[], run: Run): Promise<void> {
  const file = findTool('systemctl');
  if (file === undefined) throw new KernelError('systemctl', 'it is not installed');
  // systemd waits 90 s for a unit to stop before it kills it: DefaultTimeoutStopSec of systemd-system.conf(5).
  const { exitCode, why } = await run({ file, args: ['--no-ask-password', ...args], timeoutMs: 100_000 });
  if (exitCode !== 0) throw new KernelError(`systemctl ${args.join(' ')}`, why);
}
