import type { PageData } from '../src/emit/report/data.ts';
import { showCluster } from './cluster.ts';
import { showDrawing } from './drawing/drawing.ts';
import { byId } from './element.ts';
import { showFlows } from './flows.ts';
import { showRules } from './rules.ts';
import { startRouter, type View } from './router.ts';
import { readServices } from './service-index.ts';
import { showServices } from './services.ts';

const data = JSON.parse(byId('data').textContent ?? '') as PageData;
const services = readServices(data);

/** Views that the script draws, when they are first shown. The others are in the page already. */
const views: Readonly<Record<string, () => View>> = {
  changes: () => ({ show: ([severity]) => openSeverity(severity) }),
  ...(data.services.length === 0 ? {} : { drawing: () => showDrawing(data) }),
  services: () => showServices(data, services),
  cluster: () => showCluster(data, services),
  ...(data.flows.length === 0 ? {} : { flows: () => showFlows(data) }),
  rules: () => showRules(data.raw),
};

startRouter(views);
document.documentElement.dataset['ready'] = 'true';

/** Scrolls to a severity, with its lists open. */
function openSeverity(severity: string | undefined): void {
  const section = severity === undefined ? null : document.getElementById(`severity-${severity}`);
  if (!section) return;
  for (const list of section.querySelectorAll('details')) list.open = true;
  section.scrollIntoView({ block: 'start' });
}
