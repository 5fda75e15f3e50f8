import type { PageData } from '../src/emit/report/data.ts';
import { showCluster } from './cluster.ts';
import { drawingOf, showDrawing } from './drawing/drawing.ts';
import { byId, element } from './element.ts';
import { showFlows } from './flows.ts';
import { showRules } from './rules.ts';
import { hashOf, startRouter, type View } from './router.ts';
import { readServices } from './service-index.ts';
import { endpointTable, showServices } from './services.ts';

const data = JSON.parse(byId('data').textContent ?? '') as PageData;
const services = readServices(data);

/** A change of so few Services has room for their drawings. */
const fewMax = 2;

/** Views that the script draws, when they are first shown. The others are in the page already. */
const views: Readonly<Record<string, () => View>> = {
  changes: () => {
    drawFew(data);
    return { show: ([severity]) => openSeverity(severity) };
  },
  ...(data.services.length === 0 ? {} : { drawing: () => showDrawing(data) }),
  services: () => showServices(data, services),
  cluster: () => showCluster(data, services),
  ...(data.flows.length === 0 ? {} : { flows: () => showFlows(data) }),
  rules: () => showRules(data.raw),
};

startRouter(views);
document.documentElement.dataset['ready'] = 'true';

/** Draws the Services of a small change below its sentences, with what differs. */
function drawFew(page: PageData): void {
  if (page.services.length > fewMax || page.brief.length > 0) return;
  byId('view-changes').append(
    ...page.services.map((service) =>
      element(
        'section',
        { class: 'detail few', 'aria-label': `Drawing of ${service.name}` },
        element('h3', {}, element('a', { href: hashOf('services', service.name) }, service.name)),
        element(
          'div',
          { class: 'card scroll', tabindex: 0, role: 'group', 'aria-label': service.name },
          drawingOf(service, page.nodes),
        ),
        endpointTable(service, page),
      ),
    ),
  );
}

/** Scrolls to a severity, with its lists open. */
function openSeverity(severity: string | undefined): void {
  const section = severity === undefined ? null : document.getElementById(`severity-${severity}`);
  if (!section) return;
  for (const list of section.querySelectorAll('details')) list.open = true;
  section.scrollIntoView({ block: 'start' });
}
