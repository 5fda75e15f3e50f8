/** Bundles the script and the style of each page into a module, the same for source and build. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';

/** A page: the script and the style in `page` of its package, and the generated module. */
export interface PageSource {
  readonly folder: string;
  readonly module: string;
}

const pageOf = (name: string, part: string): PageSource => {
  const folder = join(import.meta.dirname, '../packages', name);
  return { folder: join(folder, 'page'), module: join(folder, 'src/emit', part, 'page.generated.ts') };
};

export const pages: readonly PageSource[] = [pageOf('review', 'report'), pageOf('delivery', 'fleet')];

/** Browsers of the last two years; older ones show the page without its script. */
const target = ['chrome123', 'firefox121', 'safari17.5'];

/** The text of the module of a page. */
export async function pageText(page: PageSource): Promise<string> {
  const [script, style] = [await bundle(join(page.folder, 'main.ts')), await bundle(join(page.folder, 'page.css'))];
  return [
    '/** `./dev golden` writes this file from `page` of the package; do not edit it. */\n',
    `export const pageScript =\n  ${quoted(script)};\n\n`,
    `export const pageStyle =\n  ${quoted(style)};\n`,
  ].join('');
}

async function bundle(file: string): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [file],
    bundle: true,
    format: 'iife',
    target,
    minify: true,
    charset: 'ascii',
    legalComments: 'none',
    write: false,
  });
  return (outputFiles[0]?.text ?? '').trim();
}

/** Quotes a text as the formatter would. */
function quoted(text: string): string {
  const body = JSON.stringify(text).slice(1, -1).replaceAll('\\"', '"');
  const [singles, doubles] = [body.split("'").length, body.split('"').length];
  return singles > doubles ? `"${body.replaceAll('"', '\\"')}"` : `'${body.replaceAll("'", "\\'")}'`;
}

if (process.argv[1] === import.meta.filename) {
  for (const page of pages) writeFileSync(page.module, await pageText(page));
}
