import { dirname, posix } from 'node:path';
import { linksOf } from './markdown.ts';
import { indexSource, landing, sections, sitePath } from './pages.ts';

/**
 * A page as the site has it: links to other pages lead to them, pictures are shown, links to files that are not on the site are their text
 * alone, and comments, which are for the tests of runbooks, are gone.
 * @param source of the page, below the checkout
 */
export function assemble(text: string, source: string): string {
  let result = '';
  let done = 0;
  for (const { start, end, label, target } of linksOf(text)) {
    result += text.slice(done, start);
    const there = text[start - 1] === '!' ? pictureOnSite(source, target) : onSite(source, target);
    result += there === undefined ? label : `[${label}](${there})`;
    done = end;
  }
  return (result + text.slice(done)).replace(/^<!--[^]*?-->\n/gm, '');
}

/** Several files as one page: the headings of all but the first are one level lower, those of code are none. */
export function assembleAll(texts: readonly (readonly [source: string, text: string])[]): string {
  const lowered = (text: string): string =>
    text
      .split(/(^```[^]*?^```$)/m)
      .map((part, at) => (at % 2 === 1 ? part : part.replace(/^#(?=#* )/gm, '##')))
      .join('');
  const page = texts.map(([source, text], at) => assemble(at === 0 ? text : lowered(text), source)).join('\n');
  return hasWideTable(page) ? `---\naside: false\n---\n${page}` : page;
}

/** Tables of so many columns need the room of the outline. */
const wideColumns = 6;

const hasWideTable = (text: string): boolean =>
  [...text.matchAll(/^\|(?:-+\|)+$/gm)].some(([line]) => line.split('|').length - 2 >= wideColumns);

/** Pictures of pages; `build.ts` puts the folder where the site finds it. */
export const picturesSource = 'docs/pictures';

function pictureOnSite(source: string, target: string): string {
  const named = posix.join(dirname(source), target);
  if (posix.dirname(named) !== picturesSource)
    throw new Error(`Cannot show ${target} of ${source}: it is not in ${picturesSource}`);
  return `/pictures/${posix.basename(named)}`;
}

/** Where a link leads on the site; undefined where the site does not have it. */
function onSite(source: string, target: string): string | undefined {
  if (/^(#|[a-z]+:)/.test(target)) return target;
  const [path = '', anchor] = target.split('#');
  const named = posix.join(dirname(source), path).replace(/\/$/, '');
  const place = sitePath(named) ?? sitePath(`${named}/README.md`);
  if (place === undefined) return undefined;
  const [page = '', top] = place.split('#');
  const at = anchor ?? top;
  return `/${page}.md${at === undefined ? '' : `#${at}`}`;
}

/** `docs/README.md`: what Sluice is, and the way to all pages. */
export function indexPage(): string {
  const starts = landing.starts.map(
    ({ title, about, source }) => `- **[${title}](${posix.relative(dirname(indexSource), source)})**: ${about}\n`,
  );
  return `# Sluice\n\n${landing.what}\n\n${starts.join('')}\n${belowStarts()}`;
}

/** The first page of the site: the same with links to click. */
export function homePage(): string {
  const [text = '', ...rest] = landing.what.split('. ');
  const hero = { name: 'Sluice', text, tagline: rest.join('. ').replaceAll('`', '') };
  const features = landing.starts.map(({ title, about, source }) => ({
    title,
    details: about,
    link: `/${sitePath(source)}`,
  }));
  return `---\n${JSON.stringify({ layout: 'home', hero, features })}\n---\n\n${assemble(belowStarts(), indexSource)}`;
}

function belowStarts(): string {
  const parts = sections.map(({ title, about, pages }) => {
    const lines = pages.map(({ source, title: name, about: what }) => {
      return `- [${name}](${posix.relative(dirname(indexSource), source)}): ${what}\n`;
    });
    return `## ${title}\n\n${about}\n\n${lines.join('')}`;
  });
  const why = landing.why.map((reason) => `- ${reason}\n`).join('');
  return `## Why\n\n${why}\n${landing.picture}\n\n${parts.join('\n')}`;
}
