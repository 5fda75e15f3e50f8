import { breakCode, labelCells, withCodeHeadings } from '../cells.ts';
import { slug } from '../markdown.ts';
import { sections } from '../pages.ts';

// Two gates of a sluice.
const icon = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path fill="#3451b2" d="M1 1h3v14H1zM12 1h3v14h-3zM5 3h6v4H5zM5 9h6v6H5z"/></svg>`;

/**
 * How the site is searched: all words have to be found, BUNDLE_QUARANTINED by both of its parts; headings count most, and a row that
 * explains a code has one in the index. The options are no functions, as the pages run no text as code.
 */
const search = {
  provider: 'local',
  options: {
    miniSearch: { searchOptions: { combineWith: 'AND', boost: { title: 8, text: 2, titles: 1 } } },
    _render: (source, env, md) => withCodeHeadings(String(md.render(source, env))),
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
      const code = md.renderer.rules.code_inline;
      md.renderer.rules.code_inline = (tokens, at, ...rest) =>
        breakCode(String(code(tokens, at, ...rest)), tokens[at]);
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
