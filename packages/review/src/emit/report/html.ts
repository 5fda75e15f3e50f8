import type { ChangeReport } from '../../report/report.ts';
import { verdictText } from '../../report/words.ts';
import { htmlPage } from '@sluice/renderer/emit/html.ts';
import type { PageData } from './data.ts';
import { pageBody } from './page-body.ts';
import { pageData, type ReportSides } from './page-data.ts';
import { pageScript, pageStyle } from './page.generated.ts';

/** Prints the report as one page; input is embedded as data and shown as text only. */
export function reportHtml(report: ChangeReport, sides: ReportSides): string {
  const data = pageData(report, sides);
  return htmlPage({
    title: `Sluice: ${verdictText(report.diff)}`,
    body: `${pageBody(report, data, sides)}<script type="application/json" id="data">${inScript(data)}</script>\n`,
    style: pageStyle,
    script: pageScript,
  });
}

/** JSON escaped so that an HTML parser cannot find the end of the element, a comment or a script in it. */
export function inScript(data: PageData): string {
  return JSON.stringify(data).replaceAll(
    /[<>&\u2028\u2029]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
