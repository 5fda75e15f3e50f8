import type { PageRaw } from '../src/emit/report/data.ts';
import { byId, element } from './element.ts';
import type { View } from './router.ts';

/** The diff of each file; it is added when it is opened: all at once would be too much. */
export function showRules({ files, cut }: PageRaw): View {
  byId('raw-files').replaceChildren(
    ...(files.length + cut === 0 ? [element('p', { class: 'empty' }, 'No file differs.')] : []),
    ...files.map(({ path, patch }) => fileOf(path, patch)),
    ...(cut > 0 ? [element('p', {}, `${cut} more files differ; sluice diff --raw shows them all`)] : []),
  );
  return { show: () => undefined };
}

function fileOf(path: string, patch: string): HTMLElement {
  const details = element('details', {}, element('summary', {}, element('code', {}, path)));
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
