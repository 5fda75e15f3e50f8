/** Attributes of an element; `false` and `undefined` leave one out. */
export type Attributes = Readonly<Record<string, string | number | boolean | undefined>>;
type Child = Node | string;

/** An element of HTML. Texts become text nodes: nothing of a manifest is ever read as mark-up. */
export function element<K extends keyof HTMLElementTagNameMap>(
  name: K,
  attributes: Attributes = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(name);
  fill(made, attributes, children);
  return made;
}

/** An element of SVG. */
export function shape(name: string, attributes: Attributes = {}, ...children: readonly Child[]): SVGElement {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  fill(made, attributes, children);
  return made;
}

function fill(made: Element, attributes: Attributes, children: readonly Child[]): void {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    made.setAttribute(key, value === true ? '' : String(value));
  }
  made.append(...children);
}

/** The element with an id of the page. @throws Error when the page has none */
export function byId(id: string): HTMLElement {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no #${id}`);
  return found;
}
