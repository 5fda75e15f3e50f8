// @module-tag all
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { execaSync } from 'execa';
import { expect, onTestFinished, test } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { judged, needModule } from './resource-schemas.ts';

/** The manifests of docs/argo-cd-and-flux.md: that they are understood, and that no bundle gets through them. */

const root = join(import.meta.dirname, '../..');
const read = (path: string): string => readFileSync(join(root, path), 'utf8');
const argo = read('integrations/argocd/services.yaml');
const flux = read('integrations/flux/services.yaml');
const example = join(root, 'examples/gitops');

interface KubeObject {
  readonly kind: string;
  readonly apiVersion: string;
  readonly spec?: Readonly<Record<string, unknown>>;
  readonly rules?: readonly Readonly<Record<string, readonly string[]>>[];
}
const objectsIn = (text: string): readonly KubeObject[] =>
  parseAllDocuments(text).map((document) => document.toJS() as KubeObject);
const objectOf = (text: string, kind: string): KubeObject => objectsIn(text).find((one) => one.kind === kind)!;

test.for([
  ['Argo CD', argo, 'Valid: 2, Invalid: 0, Errors: 0, Skipped: 0'],
  ['Flux', flux, 'Valid: 5, Invalid: 0, Errors: 0, Skipped: 0'],
  ['a misspelt field of an Application', argo.replace('selfHeal', 'selfheal'), 'Valid: 1, Invalid: 1'],
  [
    'a misspelt field of a project',
    argo.replace('namespaceResourceWhitelist', 'namespaceWhitelist'),
    'Valid: 1, Invalid: 1',
  ],
  ['a misspelt field of a source', flux.replace('ignore:', 'ignored:'), 'Valid: 4, Invalid: 1'],
  ['a Kustomization without prune', flux.replace('prune: false', ''), 'Valid: 4, Invalid: 1'],
] as const)('kubeconform judges %s', { timeout: 240_000 }, async ([, text, expected], context) => {
  const operators = ['Argo CD', 'Flux’ sources', 'Flux’ kustomizations'] as const;
  expect(await judged(context, text, operators)).toContain(expected);
});

test('nothing of a bundle is a Service, the only kind that both allow', () => {
  const allowed = objectOf(argo, 'AppProject').spec?.['namespaceResourceWhitelist'];
  expect(allowed).toEqual([{ group: '', kind: 'Service' }]);
  expect(objectOf(argo, 'AppProject').spec?.['clusterResourceWhitelist']).toEqual([]);
  expect(objectOf(flux, 'Role').rules).toMatchObject([{ apiGroups: [''], resources: ['services'] }]);
  const files = globSync('rendered/**/*.yaml', { cwd: example });
  expect(files.length).toBeGreaterThan(3);
  const kinds = files.flatMap((file) => objectsIn(readFileSync(join(example, file), 'utf8')));
  expect(kinds.filter(({ apiVersion }) => apiVersion === 'v1')).toEqual([]);
});

test('both read manifests alone, and remove nothing by themselves', () => {
  const { source, syncPolicy } = objectOf(argo, 'Application').spec as Record<string, Record<string, unknown>>;
  expect(source?.['path']).toBe('manifests');
  expect(syncPolicy?.['automated']).toMatchObject({ prune: false });
  expect(objectOf(flux, 'Kustomization').spec).toMatchObject({ path: './manifests', prune: false });
});

test('the pattern of Flux leaves the manifests of a repository, as git reads it', () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-ignored-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  execaSync('git', ['init', '-q'], { cwd: folder });
  writeFileSync(join(folder, '.gitignore'), String(objectOf(flux, 'GitRepository').spec?.['ignore']));
  for (const file of globSync('{manifests,rendered,allocations}/**/*.yaml', { cwd: example }).concat('sluice.yaml')) {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    writeFileSync(join(folder, file), '');
  }
  const left = execaSync('git', ['ls-files', '--others', '--exclude-standard'], { cwd: folder }).stdout.split('\n');
  expect(left.toSorted()).toEqual(globSync('manifests/**/*.yaml', { cwd: example }).toSorted());
});

test('Argo CD leaves EndpointSlices out by default', { timeout: 240_000 }, (context) => {
  const config = join(needModule(context, 'Argo CD'), 'manifests/base/config/argocd-cm.yaml');
  const { data } = parse(readFileSync(config, 'utf8')) as { data: Record<string, string> };
  const excluded = parse(data['resource.exclusions'] ?? '') as { apiGroups: string[]; kinds: string[] }[];
  expect(
    excluded.some(({ apiGroups, kinds }) => apiGroups.includes('discovery.k8s.io') && kinds.includes('EndpointSlice')),
  ).toBe(true);
});
