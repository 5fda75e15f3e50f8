import type { PageData } from '../src/emit/report/data.ts';
import { byId, element } from './element.ts';
import { showFindings } from './findings.ts';
import { showFlows } from './flows.ts';
import { showServices } from './services.ts';

const data = JSON.parse(byId('data').textContent ?? '') as PageData;

showServices(data);
showFlows(data);
showFindings(data);
showRaw();
document.documentElement.dataset['ready'] = 'true';

/** The diff of a file is added when it is opened: all at once would be too much. */
function showRaw(): void {
  const { files, cut } = data.raw;
  const box = byId('raw-files');
  byId('raw').addEventListener('toggle', () => {
    if (box.childElementCount > 0) return;
    box.replaceChildren(...files.map(({ path, patch }) => fileOf(path, patch)));
    if (cut > 0) box.append(element('p', {}, `${cut} more files differ; sluice diff --raw shows them all`));
  });
}

function fileOf(path: string, patch: string): HTMLElement {
  const details = element('details', {}, element('summary', {}, path));
  details.addEventListener('toggle', () => {
    if (details.childElementCount > 1) return;
    details.append(element('pre', { tabindex: 0 }, ...patch.split('\n').map(lineOf)));
  });
  return details;
}

function lineOf(line: string): HTMLElement {
  const kind = line.startsWith('+') ? 'added' : line.startsWith('-') ? 'removed' : line.startsWith('@') ? 'hunk' : '';
  return element('span', kind === '' ? {} : { class: kind }, `${line}\n`);
}
