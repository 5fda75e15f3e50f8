import { runs } from '@sluice/testing';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { load } from './load.ts';
import type { SourceFile } from './sources.ts';
import { yamlDocument } from './parse/yaml.fixture.ts';

const source = (text: string, file = 'in.yaml'): SourceFile => ({ file, text });

/** `line:column CODE level object` of each problem. */
function problems(text: string): string[] {
  return load([source(text)]).problems.map(({ at, code, level, object }) =>
    [`${at?.line}:${at?.column}`, code, ...(level === 'error' ? [] : [level]), ...(object ? [`(${object})`] : [])].join(
      ' ',
    ),
  );
}

const service = 'apiVersion: v1\nkind: Service\nmetadata:\n  name: web\n  namespace: shop\n';
const list =
  'apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Node\n  metadata: {name: &n node-a}\n  a: "\\u0007"\n';

test.each([
  ['nothing', '', []],
  ['a sound object', service, []],
  ['a document without kind', `${service}---\na: 1\n`, ['7:1 OBJECT_MALFORMED']],
  ['an old apiVersion, at its value', 'kind: Service\napiVersion: v1beta3\n', ['2:13 API_VERSION_UNKNOWN']],
  [
    'a SluiceConfig among the manifests',
    'apiVersion: sluice.dev/v1alpha1\nkind: SluiceConfig\n',
    ['1:1 CONFIG_INVALID warning'],
  ],
  [
    'an ambiguous value',
    `${service}spec:\n  publishNotReadyAddresses: yes\n`,
    ['7:29 YAML_AMBIGUOUS_SCALAR (Service shop/web)'],
  ],
  ['an ambiguous value of an ignored kind', 'apiVersion: v1\nkind: Pod\nspec: yes\n', []],
  [
    'an ambiguous value in one item of a List',
    'apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n  a: on\n- apiVersion: v1\n  kind: Service\n  a: on\n',
    ['9:6 YAML_AMBIGUOUS_SCALAR (Service)'],
  ],
  [
    'a control character',
    `${service}  annotations:\n    a: "x\\ty\\n"\n    b: "\\u001B[2J"\n`,
    ['8:8 CONTROL_CHARACTER (Service shop/web)'],
  ],
  ['a line end in a name', service.replace('web', '"web\\nx"'), ['4:9 CONTROL_CHARACTER (Service shop/web\\u000ax)']],
  [
    'a control character in a key of JSON',
    '{"apiVersion": "v1", "kind": "Node", "a\\u0007": 1}',
    ['1:49 CONTROL_CHARACTER (Node)'],
  ],
  [
    'errors of all documents at once',
    'a: "\n---\na: 1\na: 2\n---\nx\n',
    ['1:5 YAML_SYNTAX', '4:1 YAML_DUPLICATE_KEY', '6:1 OBJECT_MALFORMED'],
  ],
  [
    'a duplicate key of JSON in the second of two values',
    '{"apiVersion": "v1", "kind": "Pod"}\n  {"a": 1,\n "a": 2}',
    ['3:2 YAML_DUPLICATE_KEY'],
  ],
  ['a second JSON value that is broken', '{"apiVersion": "v1", "kind": "Pod"}\n{"a": }}', ['2:8 YAML_SYNTAX']],
])('reports problems of %s', (_title, text, expected) => {
  expect(problems(text)).toEqual(expected);
});

const parsers: [string, string][] = [
  ['block YAML', `# note\r\n---\r\n${service.replaceAll('\n', '\r\n')}spec:\r\n  ports:\r\n  - port: 80\r\n`],
  ['YAML with an anchor', `# note\n---\n${service}spec:\n  ports:\n  - port: &p 80\n`],
  [
    'JSON',
    `\n\n{\n"apiVersion": "v1", "kind": "Service",\n"metadata": {"name": "web"},\n\n\n"spec": {"ports": [\n {\n    "port": 80}]}}`,
  ],
  [
    'KYAML',
    `\n\n{\napiVersion: "v1", kind: "Service",\nmetadata: {name: "web"},\n\n\nspec: {ports: [\n {\n    port: 80}]}}`,
  ],
];
test.each(parsers)('%s: finds the places of values', (_title, text) => {
  const [object] = load([source(text)]).objects;
  const { line, column } = object?.origin.place(['spec', 'ports', 0, 'port']) ?? { line: 0, column: 0 };
  expect(line).toBe(10);
  expect(text.split('\n')[line - 1]?.slice(column - 1)).toMatch(/^80/);
  expect(object?.origin.place(['spec', 'ports', 0, 'protocol'])).toEqual(object?.origin.place(['spec', 'ports', 0]));
});

test('loads an object with an ambiguous scalar and refuses one with a control character', () => {
  const texts = ['a: yes\n', 'a: "\\e"\n'].map((text) => service + text);
  expect(load([source(texts.join('---\n'))]).objects.map(({ value }) => value['a'])).toEqual(['yes']);
});

test.each(['"\\ra": 1\n"\\ra": 2\n', '{"\\ra": 1, "\\ra": 2}'])(
  'reports a duplicate key of %j with escapes',
  (text) => {
    expect(load([source(text)]).problems.map(({ message }) => message)).toEqual([
      'Cannot read the map: it has the key "\\u000da" twice',
    ]);
  },
);

test('never throws, and every problem has a place', () => {
  const text = fc.oneof(yamlDocument([service, list]), fc.string({ unit: 'binary' }), fc.json());
  fc.assert(
    fc.property(fc.array(text, { maxLength: 3 }), (texts) => {
      const { objects, problems: found } = load([source(texts.join('\n---\n'))]);
      for (const { origin } of objects) expect(origin.place(['metadata', 'name']).line).toBeGreaterThan(0);
      for (const { at, message } of found) {
        expect(at?.line).toBeGreaterThan(0);
        expect(at?.column).toBeGreaterThan(0);
        expect(message).not.toMatch(/\p{Cc}/u);
      }
    }),
    runs(1000),
  );
});

test('counts objects of other kinds, in byte order', () => {
  const kinds = ['Pod', 'Deployment', 'Pod'].map((kind) => `apiVersion: v1\nkind: ${kind}\n`);
  expect([...load([source(kinds.join('---\n'))]).ignored]).toEqual([
    ['Deployment', 1],
    ['Pod', 2],
  ]);
});

test('loads a KubeProxyConfiguration with its origin and the text of its file', () => {
  const text = `${service}---\napiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: iptables\n`;
  const { kubeProxy, ignored } = load([source(text)]);
  expect(kubeProxy.map(({ value, text: of }) => [value['mode'], of])).toEqual([['iptables', text]]);
  expect(kubeProxy[0]?.origin.place(['mode'])).toEqual({ file: 'in.yaml', line: 9, column: 7 });
  expect(ignored.size).toBe(0);
});

test('refuses a file with too many documents', () => {
  expect(problems('--- x\n'.repeat(100_001))).toEqual(['1:1 INPUT_TOO_LARGE']);
});

test.each([
  ['a missing comma', '"c": 1\n"d": 2}', '9:4'],
  ['a missing end', '"c":', '8:5'],
  ['an open string', '"c": "x', '8:8'],
])('reports the place of %s in a large JSON document', (_title, end, place) => {
  const filler = `{"apiVersion": "v1",\n\n\n\n\n\n"b": "${'x'.repeat(9_000_000)}",\n`;
  expect(problems(filler + end)).toEqual([`${place} YAML_SYNTAX`]);
});

test('reads twenty thousand consecutive JSON values', () => {
  const count = 20_000;
  const text = '{"apiVersion": "v1", "kind": "Pod"}\n'.repeat(count);
  expect(load([source(text)]).ignored.get('Pod')).toBe(count);
});

test.each([
  ['Servcie', 'v1', 'Did you mean Service?'],
  ['Services', 'v1', 'Did you mean Service?'],
  ['EndpointSlices', 'discovery.k8s.io/v1', 'Did you mean EndpointSlice?'],
  ['Endpoint', 'v1', 'Did you mean Endpoints?'],
  ['Service', 'serving.knative.dev/v1', undefined],
  ['Endpoint', 'example.com/v1', undefined],
  ['ServiceAccount', 'v1', undefined],
  ['Secret', 'v1', undefined],
  ['Pod', 'v1', undefined],
])('suggests a kind for %s of %s', (kind, apiVersion, hint) => {
  const loaded = load([source(`apiVersion: ${apiVersion}\nkind: ${kind}\nmetadata: {name: a}\n`)]);
  expect(loaded.ignored.size).toBe(1);
  expect(loaded.problems.map((one) => [one.code, one.level, one.at?.line, one.hint])).toEqual(
    hint === undefined ? [] : [['KIND_UNKNOWN', 'warning', 1, hint]],
  );
});
