import type { BundleFiles } from '@sluice/bundle';
import { appendTo, compareText } from '@sluice/netfilter';
import type { BundleDiff } from '../../diff/diff.ts';
import type { Effect } from '../../report/effect.ts';
import type { ChangeReport } from '../../report/report.ts';
import type { ReportService } from '../../report/services.ts';
import { compareSeverity } from '../../report/severity.ts';
import { factText, patches } from '../diff.ts';
import { boundServices } from './brief-services.ts';
import type { PageData, PageRaw, PageService } from './data.ts';
import { pageFlow, shownFlows, turnOrder } from './flow-data.ts';
import { printServiceLine } from './service-line.ts';

/** Like the maxima of flows it keeps a page of 10,000 Services below 3 MB; what is beyond it is counted. */
const rawCharactersMax = 600_000;

/** The two bundles of a report with their names, and the config for the findings of its policy. */
export interface ReportSides {
  readonly old: { readonly name: string; readonly files: BundleFiles };
  readonly updated: { readonly name: string; readonly files: BundleFiles };
  readonly config?: string;
}

/** Makes the content that the page's script draws. */
export function pageData(report: ChangeReport, sides: ReportSides): PageData {
  const { diff } = report;
  const at = new Map(report.nodes.map(({ name }, index) => [name, index]));
  const [facts, effects] = [factsByService(diff), effectsByService(report.effects)];
  const services = report.services.map((service) => ({
    ...pageService(service, at),
    effects: effects.get(service.service) ?? [],
    facts: facts.get(service.service) ?? [],
  }));
  const isChanged = ({ fate, severity }: PageService): boolean => fate !== 'same' || severity !== undefined;
  const flows = diff.flows.map(pageFlow).toSorted((a, b) => turnOrder[a.turn] - turnOrder[b.turn]);
  const shown = shownFlows(flows);
  return {
    nodes: report.nodes.map(({ name, zone = '', fate }) => ({ name, zone, fate })),
    ...boundServices(services.filter(isChanged).toSorted(compareServices)),
    others: services.filter((service) => !isChanged(service)).map(printServiceLine),
    flows: shown,
    flowsCut: flows.length - shown.length,
    raw: rawOf(sides),
  };
}

const compareServices = (a: PageService, b: PageService): number =>
  compareSeverity(a.severity ?? 'settings', b.severity ?? 'settings') || compareText(a.name, b.name);

function factsByService({ services }: BundleDiff): ReadonlyMap<string, readonly string[]> {
  const facts = new Map<string, readonly string[]>();
  for (const { service, changes } of services) {
    facts.set(service, [...new Set([...(facts.get(service) ?? []), ...changes.map(factText)])]);
  }
  return facts;
}

function effectsByService(effects: readonly Effect[]): ReadonlyMap<string, PageService['effects']> {
  const found = new Map<string, PageService['effects'][number][]>();
  for (const { severity, sentence, subjects } of effects) {
    for (const { name, isService, details } of subjects) {
      if (!isService) continue;
      appendTo(found, name, { severity, text: [sentence, details.join('; ')].filter(Boolean).join(' – ') });
    }
  }
  return found;
}

function pageService(
  { service, fate, severity, frontends, endpoints }: ReportService,
  at: ReadonlyMap<string, number>,
): Omit<PageService, 'effects' | 'facts'> {
  return {
    name: service,
    fate,
    ...(severity === undefined ? {} : { severity }),
    frontends,
    endpoints: endpoints.map(({ node, zone: _zone, ...endpoint }) => {
      const index = node === undefined ? undefined : at.get(node);
      return { ...endpoint, ...(index === undefined ? {} : { at: index }) };
    }),
  };
}

function rawOf({ old, updated }: ReportSides): PageRaw {
  const files: { path: string; patch: string }[] = [];
  let characters = 0;
  let cut = 0;
  for (const { path, patch } of patches(old.files, updated.files)) {
    characters += characters > rawCharactersMax ? 0 : patch.length;
    if (characters > rawCharactersMax) cut++;
    else files.push({ path, patch });
  }
  return { files, cut };
}
