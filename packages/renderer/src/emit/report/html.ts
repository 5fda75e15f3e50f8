import { hash } from 'node:crypto';
import type { ChangeReport } from '../../review/report/report.ts';
import type { PageData } from './data.ts';
import { html } from './html-text.ts';
import { pageBody } from './page-body.ts';
import { pageData, type ReportSides } from './page-data.ts';
import { pageScript, pageStyle } from './page.generated.ts';

/**
 * The report as one page that needs no network. Its policy lets run the one script and the one style of the page, by their hashes, and
 * nothing else; what manifests say is data, and gets onto the page as text alone.
 */
export function reportHtml(report: ChangeReport, sides: ReportSides): string {
  const data = pageData(report, sides);
  const policy = [
    "default-src 'none'",
    `script-src '${digestOf(pageScript)}'`,
    `style-src '${digestOf(pageStyle)}'`,
    "base-uri 'none'",
    "form-action 'none'",
  ].join('; ');
  return [
    '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
    `<meta http-equiv="Content-Security-Policy" content="${policy}">\n`,
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
    '<meta name="referrer" content="no-referrer">\n<meta name="robots" content="noindex">\n',
    `<title>${html(`Sluice: ${data.verdict}`)}</title>\n`,
    `<style>${pageStyle}</style>\n</head>\n<body>\n`,
    pageBody(data),
    `<script type="application/json" id="data">${inScript(data)}</script>\n`,
    `<script>${pageScript}</script>\n</body>\n</html>\n`,
  ].join('');
}

const digestOf = (text: string): string => `sha256-${hash('sha256', text, 'base64')}`;

/** JSON that no reader of HTML takes for the end of its element, a comment or another script. */
export function inScript(data: PageData): string {
  return JSON.stringify(data).replaceAll(
    /[<>&\u2028\u2029]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
