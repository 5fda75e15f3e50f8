import { slug } from '../markdown.ts';
import { sections } from '../pages.ts';

// Two gates of a sluice.
const icon = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path fill="#3451b2" d="M1 1h3v14H1zM12 1h3v14h-3zM5 3h6v4H5zM5 9h6v6H5z"/></svg>`;

/** Writes the name of its column into each cell of a table: on a telephone it stands before the text. A row of a code gets an anchor. */
function labelCells({ tokens }) {
  const codes = new Set();
  let names = [];
  let column = 0;
  for (const [at, { type }] of tokens.entries()) {
    if (type === 'thead_open') names = [];
    if (type === 'th_open') names.push(tokens[at + 1].content.replaceAll('`', ''));
    if (type === 'tr_open') column = 0;
    if (type !== 'td_open') continue;
    const [, code] = /^`([A-Z]+(?:_[A-Z]+)+)`/.exec(tokens[at + 1].content) ?? [];
    if (column === 0 && code !== undefined && !codes.has(code)) tokens[at - 1].attrSet('id', code.toLowerCase());
    if (column === 0) codes.add(code);
    tokens[at].attrSet('data-label', names[column++] ?? '');
    for (const child of tokens[at + 1].children ?? []) child.meta = { isInCell: true };
  }
}

/** A long word of code in a cell may break where its parts end. */
function breakCode(md) {
  const whole = md.renderer.rules.code_inline;
  md.renderer.rules.code_inline = (tokens, at, ...rest) => {
    const html = whole(tokens, at, ...rest);
    if (!tokens[at].meta?.isInCell) return html;
    return html.replace(/(?<=>|\s)[^<>\s]{16,}/g, (word) => word.replace(/[./_:=,)\]}|?+*](?!$)/g, '$&<wbr>'));
  };
}

/**
 * How the site is searched: all words have to be found, BUNDLE_QUARANTINED by both of its parts; headings count most, and a row that
 * explains a code has one in the index. The options are no functions, as the pages run no text as code.
 */
const search = {
  provider: 'local',
  options: {
    miniSearch: { searchOptions: { combineWith: 'AND', boost: { title: 8, text: 2, titles: 1 } } },
    _render: (source, env, md) =>
      md
        .render(source, env)
        .replaceAll(/<tr id="(\w+)">/g, (row, id) => `<h3>${id.toUpperCase()} <a href="#${id}">#</a></h3>${row}`),
  },
};

/** Pages are gathered in `build/pages` by `build.ts`; a link that leads nowhere ends the build. */
export default {
  title: 'Sluice',
  description: 'Kube-proxy as files',
  lang: 'en-GB',
  head: [['link', { rel: 'icon', href: `data:image/svg+xml,${encodeURIComponent(icon)}` }]],
  srcDir: 'build/pages',
  outDir: '../../dist/docs',
  cacheDir: 'build/cache',
  ignoreDeadLinks: false,
  markdown: {
    anchor: { slugify: slug },
    // Pages hold no HTML; `<NAME>` in a text is a text.
    config: (md) => {
      md.set({ html: false });
      md.core.ruler.push('labels', labelCells);
      breakCode(md);
    },
  },
  themeConfig: {
    search,
    outline: [2, 3],
    nav: sections.map(({ title, folder, pages }) => ({
      text: title,
      link: `/${folder}/${pages[0].name}`,
      activeMatch: `^/${folder}/`,
    })),
    sidebar: sections.map(({ title, folder, pages }) => ({
      text: title,
      collapsed: folder === 'decisions',
      items: pages.map(({ title: text, name }) => ({ text, link: `/${folder}/${name}` })),
    })),
  },
};
