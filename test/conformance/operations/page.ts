import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Block, readRunbook, scriptOf } from '../../runbooks/runbook.ts';
import type { SystemPlace } from '../systems.ts';

const root = join(import.meta.dirname, '../../..');

/** The page whose commands are run here, but for those that need what the rig has not. */
export const pageText = readFileSync(join(root, 'docs/in-place-of-kube-proxy.md'), 'utf8');
const { blocks: all } = readRunbook(pageText);
const blocks = all.filter(({ needs }) => needs.length === 0);

const last = blocks.findIndex(({ text }) => text.startsWith('helm uninstall'));
/** Those until Sluice is installed, those that look at it, and those that remove it: from the cluster, then its rules from the nodes. */
export const [installing, looking, removing] = [blocks.slice(0, 1), blocks.slice(1, last), blocks.slice(last)];

/** What replaces the block with the site's own values. */
export type Site = Readonly<Record<'API' | 'PORT' | 'IMAGE' | 'PODS', string>>;

/** The folder of the workstation, with programs and the chart of the checkout. */
function workstationOf({ programs, folder }: SystemPlace, helm: string): string {
  const work = join(folder, 'workstation');
  const links = { kubectl: programs.kubectl, helm, deploy: join(root, 'deploy') };
  if (existsSync(work)) return work;
  mkdirSync(join(work, 'bin'), { recursive: true });
  for (const [name, target] of Object.entries(links))
    symlinkSync(target, join(work, name === 'deploy' ? name : `bin/${name}`));
  return work;
}

/** The beginning of a command of the workstation, which is the machine of the API server here, in its folder. */
function onWorkstation(place: SystemPlace, helm: string, site: Partial<Site>): readonly string[] {
  const work = workstationOf(place, helm);
  const variables = { ...site, HOME: work, KUBECONFIG: place.plane.kubeconfig, PATH: `${work}/bin:/usr/bin:/bin` };
  const env = Object.entries(variables).map(([name, value]) => `${name}=${value}`);
  return ['env', ...env, 'sh', '-c', 'cd "$HOME" && exec "$@"', 'sh'];
}

/** Runs helm on the workstation. @throws Error where it fails */
export const runHelm = (place: SystemPlace, helm: string, args: readonly string[]): Promise<string> =>
  place.control.run([...onWorkstation(place, helm, {}), helm, ...args], { timeoutMs: 120_000 });

/**
 * Runs blocks of the page on the workstation.
 * @param helm the program
 * @returns what each printed
 * @throws Error with the output of the one that failed
 */
export async function runBlocks(
  place: SystemPlace,
  chosen: readonly Block[],
  site: Site,
  helm: string,
): Promise<readonly string[]> {
  const argv = onWorkstation(place, helm, site);
  const outputs = join(workstationOf(place, helm), `blocks-${chosen[0]?.line}`);
  const script = `${outputs}.sh`;
  writeFileSync(script, scriptOf(chosen, outputs));
  const { exitCode } = await place.control.exec([...argv, 'bash', script], { timeoutMs: 600_000 });
  const printed = chosen.map((_block, index) => outputOf(join(outputs, `${index}.out`)));
  if (exitCode !== 0) throw new Error(`The page fails:\n${printed.join('\n')}`);
  return printed;
}

function outputOf(path: string): string {
  // After a block that failed there is none.
  return existsSync(path) ? readFileSync(path, 'utf8') : '';
}
