/** A view of the page: shown with the path that follows its name in the address: `#services/shop%2Fweb`. */
export interface View {
  show(path: readonly string[]): void;
}

/** An address of the page. */
export interface Route {
  readonly view: string;
  readonly path: readonly string[];
}

/** Reads the hash of an address; parts that are not URL-encoded stand for themselves. */
export function readHash(hash: string): Route {
  const [view = '', ...path] = hash.replace(/^#/, '').split('/').map(decoded);
  return { view, path };
}

/** The hash of a view: `#services/shop%2Fweb`. */
export const hashOf = (view: string, ...path: readonly string[]): string =>
  `#${[view, ...path].map(encodeURIComponent).join('/')}`;

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/**
 * Shows the view that the address names, and the next one when it changes; the first view of the page for an unknown name.
 * @param makers of views that the script draws, called when a view is first shown; all of them before the page is printed
 */
export function startRouter(makers: Readonly<Record<string, () => View>>): void {
  const sections = [...document.querySelectorAll<HTMLElement>('.view')];
  const links = [...document.querySelectorAll<HTMLElement>('nav a')];
  const made = new Map<string, View>();
  const viewOf = (name: string): View | undefined => {
    const known = made.get(name) ?? makers[name]?.();
    if (known) made.set(name, known);
    return known;
  };
  const go = (isFirst: boolean): void => {
    const { view, path } = readHash(location.hash);
    const section = sections.find(({ dataset }) => dataset['view'] === view) ?? sections[0];
    const name = section?.dataset['view'] ?? '';
    const isOther = section?.classList.contains('current') !== true;
    for (const one of sections) one.classList.toggle('current', one === section);
    for (const link of links) {
      if (link.dataset['to'] === name) {
        link.setAttribute('aria-current', 'page');
        link.parentElement?.parentElement?.scrollTo({ left: link.offsetLeft - 40 });
      } else link.removeAttribute('aria-current');
    }
    viewOf(name)?.show(name === view ? path : []);
    // Readers of screens, and keys, continue at the new view.
    if (!isFirst && isOther) section?.querySelector('h2')?.focus({ preventScroll: true });
  };
  document.documentElement.classList.add('js');
  addEventListener('hashchange', () => go(false));
  addEventListener('beforeprint', () => {
    for (const name of Object.keys(makers)) if (!made.has(name)) viewOf(name)?.show([]);
  });
  go(true);
}
