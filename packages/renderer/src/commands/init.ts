import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { initConfig } from '../emit/init.ts';
import { printProblems } from '../emit/problems.ts';
import { exitCodes } from '../exit.ts';
import { readKubeProxy } from '../load/config/kubeproxy.ts';
import { load } from '../load/load.ts';
import { printSluiceSchema } from '../load/schema/sluice.ts';
import { readSources } from '../load/sources.ts';
import { isStopped } from './render.ts';

/** `sluice init`: a commented config to start from. A file that is there stays unless `--force` is given. */
export async function initCommand(
  file: string = 'sluice.yaml',
  options: { readonly filename?: string; readonly force: boolean },
): Promise<number> {
  const from = options.filename === undefined ? [] : [options.filename];
  const { sources, problems } = await readSources(from, { recursive: false, stdin: process.stdin });
  const loaded = load(sources);
  const found = [...problems, ...loaded.problems, ...readKubeProxy(loaded.kubeProxy).problems];
  process.stderr.write(printProblems(found));
  if (isStopped(found, false)) return exitCodes.problem;
  const [kubeProxy] = loaded.kubeProxy;
  if (options.filename !== undefined && kubeProxy === undefined) {
    process.stderr.write(
      `Cannot find a KubeProxyConfiguration in ${options.filename}: give kube-proxy's ConfigMap or the configuration itself\n`,
    );
    return exitCodes.problem;
  }
  try {
    writeFileSync(file, initConfig(kubeProxy), { flag: options.force ? 'w' : 'wx' });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    process.stderr.write(`Cannot write ${file}: it is there already; give another name or --force\n`);
    return exitCodes.problem;
  }
  // Editors complete the config from it; it belongs to this version of Sluice, so it may be overwritten.
  writeFileSync(join(dirname(file), 'sluiceconfig.schema.json'), printSluiceSchema());
  process.stderr.write(
    `${file} written: read it, change it, then run sluice render -f MANIFESTS -c ${file} -o rendered\n`,
  );
  return exitCodes.done;
}
