/** Bundles the script and the style of each page into a module, the same for source and build. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';

const folder = join(import.meta.dirname, '..', 'packages', 'renderer');

/** The script and the style of a page, below packages/renderer/page, and the generated module. */
export interface PageSource {
  readonly script: string;
  readonly style: string;
  readonly module: string;
}

const moduleOf = (name: string): string => join(folder, 'src', 'emit', name, 'page.generated.ts');

export const pages: readonly PageSource[] = [
  { script: 'main.ts', style: 'page.css', module: moduleOf('report') },
  { script: 'fleet/main.ts', style: 'fleet/page.css', module: moduleOf('fleet') },
];

/** Browsers of the last two years; older ones show the page without its script. */
const target = ['chrome123', 'firefox121', 'safari17.5'];

/** The text of the module of a page. */
export async function pageText(page: PageSource): Promise<string> {
  const [script, style] = [await bundle(page.script), await bundle(page.style)];
  return [
    '/** `./dev golden` writes this file from packages/renderer/page; do not edit it. */\n',
    `export const pageScript =\n  ${quoted(script)};\n\n`,
    `export const pageStyle =\n  ${quoted(style)};\n`,
  ].join('');
}

async function bundle(file: string): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [join(folder, 'page', file)],
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
