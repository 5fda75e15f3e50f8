/**
 * `./dev docs`: gathers the pages and has VitePress make a static site of them in `dist/docs`. What else the command line says goes to
 * VitePress, such as `--base /sluice/`; with `--serve` the site is served on this machine then.
 */
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { execa } from 'execa';
import { assembleAll, homePage, picturesSource } from './assemble.ts';
import { allPages, indexSource } from './pages.ts';

const root = join(import.meta.dirname, '..', '..');
const vitepress = join(import.meta.dirname, 'node_modules/vitepress/bin/vitepress.js');

/**
 * Builds the site.
 * @param outDir the folder that it becomes; what is there is replaced
 * @param options for VitePress
 * @throws with the output of VitePress, such as a link that leads nowhere
 */
export async function buildSite(outDir: string, options: readonly string[] = []): Promise<void> {
  gatherPages(join(import.meta.dirname, 'build/pages'));
  await execa(process.execPath, [vitepress, 'build', '.', '--outDir', outDir, ...options], {
    cwd: import.meta.dirname,
  });
}

function gatherPages(folder: string): void {
  rmSync(folder, { recursive: true, force: true });
  cpSync(join(root, picturesSource), join(folder, 'public/pictures'), { recursive: true });
  for (const { sources, path } of allPages) {
    const file = join(folder, `${path}.md`);
    mkdirSync(dirname(file), { recursive: true });
    const texts = sources.map((source) => [source, readFileSync(join(root, source), 'utf8')] as const);
    writeFileSync(file, sources[0] === indexSource ? homePage() : assembleAll(texts));
  }
}

if (import.meta.main) {
  const outDir = join(root, 'dist', 'docs');
  const options = process.argv.slice(2).filter((word) => word !== '--serve');
  await buildSite(outDir, options);
  process.stdout.write(`docs: dist/docs (${allPages.length} pages)\n`);
  if (process.argv.includes('--serve'))
    await execa(process.execPath, [vitepress, 'preview', '.'], {
      cwd: import.meta.dirname,
      stdio: 'inherit',
    });
}
