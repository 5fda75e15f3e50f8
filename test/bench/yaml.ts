import { parseDocument } from 'yaml';
import { splitDocuments } from '../../packages/renderer/src/load/parse/documents.ts';
import { load } from '../../packages/renderer/src/load/load.ts';

/**
 * The duration of loading 10,000 Services and as many EndpointSlices, in each form of the input, and its ratio to
 * the `yaml` library, which reads one document in forty. Run it with `node test/bench/yaml.ts`.
 */
const services = 10_000;
const endpointsPerSlice = 5;
const sampledEvery = 40;

const documents = Array.from({ length: services }, (_, index) => [serviceYaml(index), sliceYaml(index)]).flat();
const yaml = documents.join('---\n');
const list = `apiVersion: v1\nkind: List\nitems:\n${documents.map(asItem).join('')}`;
const items = load([{ file: 'all.yaml', text: yaml }]).objects.map((object) => object.value);

const library = timed(() => {
  const sample = splitDocuments('all.yaml', yaml).filter((_, index) => index % sampledEvery === 0);
  for (const document of sample) parseDocument(document.text).toJS();
});
report('yaml library, extrapolated', yaml, library * sampledEvery);
report('YAML, a document each', yaml, loading(yaml));
report('YAML, one List', list, loading(list));
const json = JSON.stringify({ apiVersion: 'v1', kind: 'List', items }, undefined, 4);
report('JSON, one List', json, loading(json));
const place = load([{ file: 'list.yaml', text: list }]).objects.at(-1)?.origin;
report(
  'YAML, one List: one place',
  list,
  timed(() => place?.place(['ports', 0, 'port'])),
);

function report(what: string, text: string, milliseconds: number): void {
  const megabytes = (text.length / 1e6).toFixed(1).padStart(5);
  const ratio = (library * sampledEvery) / milliseconds;
  console.log(
    `${what.padEnd(28)} ${megabytes} MB ${milliseconds.toFixed(0).padStart(6)} ms ${ratio.toFixed(0).padStart(4)}x`,
  );
}

/** The best of three, as the machine may be busy. */
function loading(text: string): number {
  const runs = [1, 2, 3].map(() =>
    timed(() => {
      const { objects, problems } = load([{ file: 'input', text }]);
      if (objects.length !== 2 * services || problems.length > 0) throw new Error(`${objects.length} objects`);
    }),
  );
  return Math.min(...runs);
}

function timed(work: () => void): number {
  const before = performance.now();
  work();
  return performance.now() - before;
}

function asItem(document: string): string {
  return document.replace(/^/gm, '  ').replace(/^ {2}/, '- ').replace(/ +$/, '');
}

function serviceYaml(index: number): string {
  return `apiVersion: v1
kind: Service
metadata:
  creationTimestamp: "2026-01-01T00:00:00Z"
  labels:
    app.kubernetes.io/name: web-${index}
    app.kubernetes.io/managed-by: Helm
  name: web-${index}
  namespace: shop-${index % 100}
  resourceVersion: "${100_000 + index}"
  uid: 6f0c5a3e-0000-4000-8000-${String(index).padStart(12, '0')}
spec:
  clusterIP: ${address(10, 96, index)}
  clusterIPs:
  - ${address(10, 96, index)}
  internalTrafficPolicy: Cluster
  ipFamilies:
  - IPv4
  ipFamilyPolicy: SingleStack
  ports:
  - name: http
    port: 80
    protocol: TCP
    targetPort: 8080
  selector:
    app.kubernetes.io/name: web-${index}
  sessionAffinity: None
  type: ClusterIP
status:
  loadBalancer: {}
`;
}

function sliceYaml(index: number): string {
  const endpoints = Array.from({ length: endpointsPerSlice }, (_, n) => endpointYaml(index * endpointsPerSlice + n));
  return `addressType: IPv4
apiVersion: discovery.k8s.io/v1
endpoints:
${endpoints.join('')}kind: EndpointSlice
metadata:
  labels:
    endpointslice.kubernetes.io/managed-by: endpointslice-controller.k8s.io
    kubernetes.io/service-name: web-${index}
  name: web-${index}-abcde
  namespace: shop-${index % 100}
ports:
- name: http
  port: 8080
  protocol: TCP
`;
}

function endpointYaml(index: number): string {
  return `- addresses:
  - ${address(10, 244, index)}
  conditions:
    ready: true
    serving: true
    terminating: false
  nodeName: node-${index % 1000}
  targetRef:
    kind: Pod
    name: pod-${index}
  zone: zone-${index % 3}
`;
}

function address(a: number, b: number, index: number): string {
  return `${a}.${b + (index >> 16)}.${(index >> 8) & 255}.${index & 255}`;
}
