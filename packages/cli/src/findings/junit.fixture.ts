/** An element of an XML document, without comments, sections and namespaces: JUnit files of Sluice have none. */
export interface XmlElement {
  readonly name: string;
  readonly attributes: ReadonlyMap<string, string>;
  readonly children: readonly XmlElement[];
  readonly text: string;
}

type Building = XmlElement & {
  readonly attributes: Map<string, string>;
  readonly children: XmlElement[];
  text: string;
};

/** What a tag, an end tag or text is in XML 1.0 (productions 14, 40 to 44), as far as JUnit files use it. */
const token = /<(\/)?([A-Za-z][\w.-]*)((?:\s+[A-Za-z][\w.-]*="[^"<]*")*)\s*(\/)?>|([^<]+)/y;
const attribute = /([A-Za-z][\w.-]*)="([^"]*)"/g;
const reference = /&(?:amp|lt|gt|quot|apos);/g;

/** Reads a document that is well-formed. @throws Error with the place where it is not */
export function parseXml(document: string): XmlElement {
  const head = '<?xml version="1.0" encoding="UTF-8"?>\n';
  if (!document.startsWith(head)) throw new Error('the document has no declaration');
  const root: Building = { name: '', attributes: new Map(), children: [], text: '' };
  const open = [root];
  token.lastIndex = head.length;
  while (token.lastIndex < document.length) {
    const at = token.lastIndex;
    const match = token.exec(document);
    const parent = open.at(-1)!;
    if (!match) throw new Error(`not XML: ${document.slice(at, at + 80)}`);
    const [, isEnd, name = '', attributes = '', isEmpty, text] = match;
    if (text !== undefined) parent.text += unescaped(text);
    else if (isEnd !== undefined) {
      if (parent.name !== name) throw new Error(`</${name}> closes <${parent.name}>`);
      open.pop();
    } else {
      const element: Building = { name, attributes: attributesOf(attributes), children: [], text: '' };
      parent.children.push(element);
      if (isEmpty === undefined) open.push(element);
    }
  }
  if (open.length > 1) throw new Error(`<${open.at(-1)!.name}> is not closed`);
  if (root.children.length !== 1 || root.text.trim() !== '') throw new Error('the document has not one root');
  return root.children[0]!;
}

function attributesOf(text: string): Map<string, string> {
  const found = new Map<string, string>();
  for (const [, name = '', value = ''] of text.matchAll(attribute)) {
    if (found.has(name)) throw new Error(`attribute ${name} is there twice`);
    found.set(name, unescaped(value));
  }
  return found;
}

const characters: Readonly<Record<string, string>> = {
  '&amp;': '&',
  '&lt;': '<',
  '&gt;': '>',
  '&quot;': '"',
  '&apos;': "'",
};

function unescaped(text: string): string {
  if (text.replaceAll(reference, '').includes('&')) throw new Error(`an & that is no reference: ${text.slice(0, 80)}`);
  if (/[^\t\n\r\u0020-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]/u.test(text)) throw new Error('no character of XML 1.0');
  return text.replaceAll(reference, (one) => characters[one]!);
}

interface Form {
  /** Attributes that must be there, and those that may be. */
  readonly required: readonly string[];
  readonly optional: readonly string[];
  readonly children: readonly string[];
}

const finding: Form = { required: [], optional: ['message', 'type'], children: [] };
const output: Form = { required: [], optional: [], children: [] };

/** `junit-10.xsd` of Jenkins' xUnit plugin, without `rerunFailure` and its kin, which Sluice does not write. */
const forms: Readonly<Record<string, Form>> = {
  testsuites: {
    required: [],
    optional: ['name', 'time', 'tests', 'failures', 'errors', 'disabled'],
    children: ['testsuite'],
  },
  testsuite: {
    required: ['name', 'tests'],
    optional: ['failures', 'errors', 'time', 'disabled', 'skipped', 'timestamp', 'hostname', 'id', 'package'],
    children: ['testcase', 'system-out', 'system-err'],
  },
  testcase: {
    required: ['name'],
    // `file` is GitLab's; Jenkins ignores it.
    optional: ['classname', 'time', 'status', 'assertions', 'group', 'file'],
    children: ['skipped', 'error', 'failure', 'system-out', 'system-err'],
  },
  skipped: finding,
  error: finding,
  failure: finding,
  'system-out': output,
  'system-err': output,
};

/** Reads a JUnit file as Jenkins' schema has it, with counts that are those of its elements. @throws Error where it is none */
export function parseJunit(document: string): readonly XmlElement[] {
  const root = parseXml(document);
  if (root.name !== 'testsuites') throw new Error(`the root is ${root.name}`);
  checkForm(root);
  const suites = root.children;
  const cases = suites.flatMap(({ children }) => children.filter(({ name }) => name === 'testcase'));
  checkCounts(root, cases);
  for (const suite of suites)
    checkCounts(
      suite,
      suite.children.filter(({ name }) => name === 'testcase'),
    );
  return cases;
}

function checkForm({ name, attributes, children, text }: XmlElement): void {
  const form = forms[name];
  if (!form) throw new Error(`<${name}> is not in the schema`);
  const odd = [...attributes.keys()].find((one) => ![...form.required, ...form.optional].includes(one));
  const lacking = form.required.find((one) => !attributes.has(one));
  const child = children.find((one) => !form.children.includes(one.name));
  if (odd !== undefined) throw new Error(`<${name}> has attribute ${odd}`);
  if (lacking !== undefined) throw new Error(`<${name}> lacks attribute ${lacking}`);
  if (child) throw new Error(`<${name}> has <${child.name}>`);
  if (form.children.length > 0 && text.trim() !== '') throw new Error(`<${name}> has text: ${text.trim()}`);
  for (const one of children) checkForm(one);
}

const counted = { tests: undefined, failures: 'failure', errors: 'error', skipped: 'skipped' } as const;

function checkCounts({ name, attributes }: XmlElement, cases: readonly XmlElement[]): void {
  for (const [attributeName, kind] of Object.entries(counted)) {
    const said = attributes.get(attributeName);
    const count = cases.filter(
      ({ children }) => kind === undefined || children.some((one) => one.name === kind),
    ).length;
    if (said !== undefined && said !== String(count))
      throw new Error(`<${name}> says ${attributeName}=${said}, not ${count}`);
  }
}
