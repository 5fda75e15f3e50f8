import type { ChangeReport, Failure, WhatIf } from '../../report/report.ts';
import { severities, type Severity, severityLabels } from '../../report/severity.ts';
import { verdictText } from '../../report/words.ts';
import { html } from '@sluice/renderer/emit/html.ts';
import { countText } from '../policy/report.ts';
import { settingLines } from '../settings.ts';
import type { PageData } from './data.ts';
import { belowHeadline, effectsView, headline, severityTiles } from './effects-view.ts';
import { findingGroups, policyView } from './findings.ts';
import type { ReportSides } from './page-data.ts';
import { shapeMark, shapeSymbols } from './shapes.ts';

/** The maximum number of failures, and of ports of one failure, in a page. */
const failuresMax = 500;
const portsMax = 20;

/** What the view cannot know, and where it is counted. */
const unknown =
  '<p class="quiet">An endpoint whose node or zone the bundle does not name survives every failure here; <code>sluice what-if</code> counts them.</p>\n';

/** The view of single failures, worst first. */
function whatIfView(failures: WhatIf): string {
  if (failures.length === 0)
    return `<p class="empty">No failure of a single zone or node takes a port or a frontend from clients, passes the limit of shares or breaks a rule of the policy.</p>\n${unknown}`;
  const rows = failures.slice(0, failuresMax).map(rowOf);
  const cut = failures.length - failuresMax;
  const heads = ['without', 'taken from clients', 'shares above the limit', 'rules that break'];
  return [
    `<div class="card"><table class="stack failures"><thead><tr>${heads.map((head) => `<th scope="col">${head}</th>`).join('')}</tr></thead>`,
    `<tbody>${rows.join('')}</tbody></table></div>`,
    cut > 0 ? `<p class="quiet">${cut} more; <code>sluice what-if</code> prints all</p>\n` : '\n',
    unknown,
  ].join('');
}

function rowOf({ kind, name, lost, over, rules }: Failure): string {
  return [
    `<tr><td data-label="without"><span>${shapeMark(severityOf({ lost, over }))}${kind} <b>${html(name)}</b></span></td>`,
    `<td data-label="taken from clients">${listOf(lost)}</td>`,
    `<td data-label="above the limit">${listOf(over)}</td>`,
    `<td data-label="rules that break">${listOf(rules)}</td></tr>`,
  ].join('');
}

const severityOf = ({ lost, over }: Pick<Failure, 'lost' | 'over'>): Severity =>
  lost.length > 0 ? 'last-endpoint' : over.length > 0 ? 'moves' : 'settings';

/** A line for each text. */
function listOf(texts: readonly string[]): string {
  if (texts.length === 0) return '<span class="quiet">none</span>';
  const more = texts.length > portsMax ? `<li class="quiet">and ${texts.length - portsMax} more</li>` : '';
  const lines = texts.slice(0, portsMax).map((text) => `<li>${html(text).replaceAll(' %', '&nbsp;%')}</li>`);
  return `<ul>${lines.join('')}${more}</ul>`;
}

/** A view of the page: its address is `#NAME`. Without the script all of them stand below each other. */
interface View {
  readonly name: string;
  readonly title: string;
  readonly count?: number;
  readonly body: string;
}

/** The page before, or without, its script: headline, severities, what changes, the policy and settings. */
export function pageBody(report: ChangeReport, data: PageData, sides: ReportSides): string {
  const views = viewsOf(report, data, sides);
  return [
    shapeSymbols(),
    '<a class="skip" href="#changes">To what changes</a>\n<header>\n',
    `<p class="sides"><b>Sluice</b> compares <code>${html(sides.old.name)}</code> with <code>${html(sides.updated.name)}</code></p>\n`,
    ...headOf(report),
    severityTiles(report.effects),
    `</header>\n<nav aria-label="Views"><ul>${views.map(navItem).join('')}</ul></nav>\n<main>\n`,
    '<noscript><p>Drawings, lists and flows on this page need JavaScript; <code>sluice diff</code> prints the same as text.</p></noscript>\n',
    ...views.map(viewHtml),
    '</main>\n<footer>Made by sluice from the two bundles alone. Shares are of new connections, by weight over all endpoints; flows have the shares on each node.</footer>\n',
  ].join('');
}

/** The worst first; the counts of everything below it. */
function headOf(report: ChangeReport): readonly string[] {
  const { effects, diff, policy } = report;
  const below = [
    html(belowHeadline(report)),
    policy === undefined ? '' : `<a href="#policy">Policy: ${html(countText(policy))}</a>`,
  ].filter(Boolean);
  return [
    `<h1>${html(headline(effects) || verdictText(diff))}</h1>\n`,
    below.length === 0 ? '' : `<p class="verdict">${below.join('. ')}</p>\n`,
  ];
}

function viewsOf(report: ChangeReport, data: PageData, sides: ReportSides): readonly View[] {
  const { policy, whatIf, effects, diff } = report;
  const names = { bundle: sides.updated.name, ...(sides.config === undefined ? {} : { config: sides.config }) };
  const settings = settingLines(diff);
  const files = data.raw.files.length + data.raw.cut;
  return [
    { name: 'changes', title: 'Changes', count: effects.length, body: effectsView(effects) },
    { name: 'drawing', title: 'Drawing', body: data.services.length === 0 ? none('No Service changes.') : drawingBody },
    { name: 'services', title: 'Services', count: data.services.length + data.brief.length, body: servicesBody },
    { name: 'cluster', title: 'Cluster', body: clusterBody(data.brief.length) },
    {
      name: 'flows',
      title: 'Flows',
      count: diff.flows.length,
      body: data.flows.length === 0 ? none('No flow changes.') : flowsBody(data.flowsCut),
    },
    ...(policy === undefined
      ? []
      : [
          {
            name: 'policy',
            title: 'Policy',
            count: policy.findings.length,
            body: policyView(findingGroups(policy, names)),
          },
        ]),
    ...(whatIf === undefined
      ? []
      : [{ name: 'what-if', title: 'What if', count: whatIf.length, body: whatIfView(whatIf) }]),
    ...(settings.length === 0
      ? []
      : [{ name: 'settings', title: 'Settings', body: `<pre tabindex="0">${html(settings.join('\n'))}</pre>\n` }]),
    { name: 'rules', title: 'Rules', count: files, body: '<div id="raw-files"></div>\n' },
  ];
}

function navItem({ name, title, count }: View): string {
  return `<li><a href="#${name}" data-to="${name}">${title}${count === undefined ? '' : ` <span class="count">${count}</span>`}</a></li>`;
}

function viewHtml({ name, title, body }: View): string {
  return `<section class="view" id="view-${name}" data-view="${name}" aria-labelledby="view-${name}-title">\n<h2 id="view-${name}-title" tabindex="-1">${title}</h2>\n${body}</section>\n`;
}

const none = (text: string): string => `<p class="empty">${text}</p>\n`;

const option = ([value, text]: readonly [string, string]): string => `<option value="${value}">${text}</option>`;

const drawingBody = `<div class="bar"><span id="drawing-count" class="quiet" role="status"></span>
<span class="buttons"><button type="button" id="zoom-out" aria-label="Zoom out">−</button><button type="button" id="zoom-in" aria-label="Zoom in">+</button><button type="button" id="zoom-fit">Fit</button></span></div>
<p class="legend" id="drawing-keys"><span class="key stays">stays</span><span class="key comes">comes</span><span class="key leaves">leaves</span> <span class="quiet">Bands are as wide as shares. Drag or use arrow keys to move; <kbd>+</kbd> <kbd>−</kbd> or two fingers zoom, <kbd>0</kbd> fits, <kbd>Enter</kbd> opens a Service.</span></p>
<div id="drawing-heads" class="heads quiet" aria-hidden="true"></div>
<div id="canvas" class="canvas" tabindex="0" role="group" aria-label="Drawing of all changed Services" aria-describedby="drawing-keys"></div>
`;

const servicesBody = `<div class="split">
<div>
<div class="bar"><input id="service-search" type="search" placeholder="name or address" aria-label="Search Services">
<select id="service-kind" aria-label="Which Services">${(
  [
    ['changed', 'all that change'],
    ...severities.map((severity) => [severity, severityLabels[severity]] as const),
    ['all', 'all Services'],
  ] as const
)
  .map(option)
  .join('')}</select>
<span id="service-count" class="quiet" role="status"></span></div>
<div id="service-list" class="list" role="listbox" tabindex="0" aria-label="Services"></div>
</div>
<div id="service-detail" class="detail" aria-live="polite"></div>
</div>
`;

const clusterBody = (without: number): string => `<p class="bar" id="cluster-path"></p>
${without > 0 ? `<p class="quiet">Without the endpoints and frontends of ${without} changed Services, for which this page has no room; <code>sluice report -o json</code> has them.</p>\n` : ''}<p class="legend quiet">Endpoints of a namespace in a zone or on a node; some come (+) or leave (−). The stronger the colour, the more connections. Choose a namespace or a zone to look into it.</p>
<div id="cluster-table" class="scroll" tabindex="0" role="region" aria-label="Endpoints by namespace and place"></div>
`;

const flowsBody = (
  cut: number,
): string => `<div class="bar"><input id="flow-search" type="search" placeholder="Service, address, port, node, endpoint" aria-label="Search flows">
<select id="flow-turn" aria-label="Kind of change">${(
  [
    ['all', 'everything'],
    ['closes', 'closes: no longer has a destination'],
    ['opens', 'opens: now has a destination'],
    ['moves', 'moves: has another destination'],
  ] as const
)
  .map(option)
  .join('')}</select>
<select id="flow-source" aria-label="Source">${(
  [
    ['all', 'from any source'],
    ['pod-here', 'from pods of the node'],
    ['pod-elsewhere', 'from other pods'],
    ['node', 'from the node itself'],
    ['outside', 'from outside'],
    ['endpoint', 'from endpoints'],
  ] as const
)
  .map(option)
  .join('')}</select>
<span id="flow-count" class="quiet" role="status"></span></div>
${cut > 0 ? `<p class="quiet">${cut} more flows change; <code>sluice diff -o json</code> has all.</p>\n` : ''}<div class="head" aria-hidden="true"><span class="sign"></span><span>Service</span><span>to</span><span>from</span><span class="double">what changes</span></div>
<div id="flow-list" class="list" role="listbox" tabindex="0" aria-label="Flows"></div>
<div id="flow-detail" class="detail card" aria-live="polite"><p class="quiet">Choose a flow to see its ends, their shares and a packet to trace.</p></div>
`;
