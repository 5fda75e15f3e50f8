import type { PageData } from './data.ts';
import { html } from './html-text.ts';

/** The content of the page before, or without, its script. */
export function pageBody(data: PageData): string {
  return [
    '<a class="skip" href="#flows">To the flows</a>\n<header>\n',
    `<p class="quiet">Sluice compares <code>${html(data.old)}</code> with <code>${html(data.new)}</code></p>\n`,
    `<h1>${html(data.verdict)}</h1>\n`,
    `<dl class="tiles">${data.tiles.map(({ label, value }) => `<div><dt>${html(label)}</dt><dd>${html(value)}</dd></div>`).join('')}</dl>\n`,
    '<noscript><p>The lists on this page need JavaScript; <code>sluice diff</code> prints the same as text.</p></noscript>\n',
    '</header>\n<main>\n',
    policySection(data),
    servicesSection,
    flowsSection,
    settingsSection(data),
    rawSection(data),
    '<footer>Made by sluice from the two bundles alone. Shares of endpoints are shares of new connections.</footer>\n</main>\n',
  ].join('');
}

function policySection({ findings }: PageData): string {
  if (findings === undefined) return '';
  const text = findings.length === 0 ? '<p>No policy findings.</p>' : '<div id="findings"></div>';
  return `<section aria-labelledby="policy-title"><h2 id="policy-title">Policy</h2>${text}</section>\n`;
}

const option = ([value, text]: readonly [string, string]): string => `<option value="${value}">${text}</option>`;

const servicesSection = `<section aria-labelledby="services-title">
<h2 id="services-title">Services, endpoints, nodes and zones</h2>
<div class="split">
<div>
<div class="bar"><input id="service-search" type="search" placeholder="name or address" aria-label="Search Services">
<select id="service-fate" aria-label="Which Services">${(
  [
    ['touched', 'changed, added or removed'],
    ['added', 'added'],
    ['removed', 'removed'],
    ['changed', 'changed'],
    ['all', 'all'],
  ] as const
)
  .map(option)
  .join('')}</select>
<span id="service-count" class="quiet" role="status"></span></div>
<div id="service-list" class="list" role="listbox" tabindex="0" aria-label="Services"></div>
</div>
<div>
<div class="bar"><h3 id="drawing-title"></h3><button id="drawing-all" type="button">Draw all changes</button></div>
<div id="drawing" class="panel" tabindex="0"></div>
<div id="facts"></div>
</div>
</div>
</section>
`;

const flowsSection = `<section id="flows" aria-labelledby="flows-title">
<h2 id="flows-title">Traffic changes</h2>
<div class="bar"><input id="flow-search" type="search" placeholder="Service, address, port, node, endpoint" aria-label="Search flows">
<select id="flow-turn" aria-label="Kind of change">${(
  [
    ['all', 'everything'],
    ['opens', 'opens: now has a destination'],
    ['closes', 'closes: no longer has a destination'],
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
<div class="head" aria-hidden="true"><span class="sign"></span><span>Service</span><span>to</span><span>from</span><span>before</span><span>after</span></div>
<div id="flow-list" class="list short" role="listbox" tabindex="0" aria-label="Flows"></div>
<div id="flow-detail" class="panel" aria-live="polite"><p class="quiet">Choose a flow to see its details and a packet to trace.</p></div>
</section>
`;

function settingsSection({ settings }: PageData): string {
  if (settings.length === 0) return '';
  return `<section><h2>Settings and nodes</h2><pre tabindex="0">${html(settings.join('\n'))}</pre></section>\n`;
}

function rawSection({ raw }: PageData): string {
  const count = raw.files.length + raw.cut;
  return `<section><h2>Rules</h2><details id="raw"><summary>Diff of ${count} files</summary><div id="raw-files"></div></details></section>\n`;
}
