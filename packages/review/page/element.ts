/** Attributes of an element; `false` and `undefined` leave one out. */
export type Attributes = Readonly<Record<string, string | number | boolean | undefined>>;
type ElementChild = Node | string;

/** Creates an HTML element. Texts become text nodes: input is never parsed as mark-up. */
export function element<K extends keyof HTMLElementTagNameMap>(
  name: K,
  attributes: Attributes = {},
  ...children: readonly ElementChild[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(name);
  fill(made, attributes, children);
  return made;
}

/** Creates an SVG element. */
export function shape(name: string, attributes: Attributes = {}, ...children: readonly ElementChild[]): SVGElement {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  fill(made, attributes, children);
  return made;
}

function fill(made: Element, attributes: Attributes, children: readonly ElementChild[]): void {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    made.setAttribute(key, value === true ? '' : String(value));
  }
  made.append(...children);
}

/** Returns the element with this id. @throws Error when the page has none */
export function byId(id: string): HTMLElement {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no #${id}`);
  return found;
}
