/** The script and the style of the report's page, bundled into a module: what runs from source and what is built have the same. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';

const folder = join(import.meta.dirname, '..', 'packages', 'renderer');

/** The module that keeps them. */
export const pageModule = join(folder, 'src', 'emit', 'report', 'page.generated.ts');

/** Browsers of two years before; older ones show the page without its script. */
const target = ['chrome123', 'firefox121', 'safari17.5'];

/** The text of the module, from packages/renderer/page. */
export async function pageText(): Promise<string> {
  const [script, style] = [await bundle('main.ts'), await bundle('page.css')];
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

/** A text in the quotes that the formatter would choose. */
function quoted(text: string): string {
  const body = JSON.stringify(text).slice(1, -1).replaceAll('\\"', '"');
  const [singles, doubles] = [body.split("'").length, body.split('"').length];
  return singles > doubles ? `"${body.replaceAll('"', '\\"')}"` : `'${body.replaceAll("'", "\\'")}'`;
}

if (process.argv[1] === import.meta.filename) writeFileSync(pageModule, await pageText());
