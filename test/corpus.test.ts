import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Problem } from '@sluice/netfilter';
import { expect, test } from 'vitest';
import { readConfig } from '../packages/renderer/src/load/config/config.ts';
import { load } from '../packages/renderer/src/load/load.ts';
import { render } from '../packages/renderer/src/render/render.ts';

const root = join(import.meta.dirname, 'corpus');
const notes = readFileSync(join(root, 'SOURCES.md'), 'utf8');

/** Files that must be refused, with their problem codes and a line that must be among the places. */
const refused: Readonly<
  Record<string, { readonly codes: readonly string[]; readonly line: number; readonly why?: string }>
> = {
  // NEGATIVE notes of SOURCES.md
  'GoogleCloudPlatform__microservices-demo/frontend.yaml': { codes: ['YAML_SYNTAX'], line: 15 },
  'istio__istio/deployment-multi-service.yaml': { codes: ['FIELD_VALUE'], line: 67 },
  'kubernetes__examples/etcd-service-template.yaml': { codes: ['YAML_SYNTAX'], line: 7 },
  'kubernetes__examples/frontend-service-v1beta3.json': { codes: ['API_VERSION_UNKNOWN'], line: 3 },
  'yannh__kubeconform/duplicate_property.yaml': { codes: ['YAML_DUPLICATE_KEY'], line: 16 },
  'yannh__kubeconform/list_invalid.yaml': {
    codes: [],
    line: 0,
    why: 'its bad member is a ReplicationController, which is ignored',
  },
  'yannh__kubeconform/multi_invalid.yaml': { codes: ['FIELD_TYPE'], line: 12 },
  // without a note, and still not Kubernetes objects
  'istio__istio/virtualservice_destinationhosts.yaml': {
    codes: ['FIELD_VALUE'],
    line: 21,
    why: 'protocol: HTTP and HTTPS',
  },
  'kubernetes__api/discovery.k8s.io.v1beta1.EndpointSlice.yaml': {
    codes: ['NAME_INVALID', 'FIELD_VALUE'],
    line: 1,
    why: 'placeholder values',
  },
  'kubernetes__api/core.v1.Endpoints.yaml': {
    codes: ['NAME_INVALID', 'ADDRESS_INVALID'],
    line: 23,
    why: 'placeholder values',
  },
  'kubernetes__api/core.v1.Node.yaml': { codes: ['NAME_INVALID'], line: 23, why: 'placeholder values' },
  'kubernetes__api/core.v1.Service.json': {
    codes: ['NAME_INVALID', 'FIELD_VALUE'],
    line: 5,
    why: 'placeholder values',
  },
  'kubernetes__api/core.v1.Service.yaml': {
    codes: ['NAME_INVALID', 'FIELD_VALUE'],
    line: 23,
    why: 'placeholder values',
  },
  'kubernetes__api/discovery.k8s.io.v1.EndpointSlice.yaml': {
    codes: ['FIELD_VALUE'],
    line: 1,
    why: 'placeholder values',
  },
};

const files = readdirSync(root, { recursive: true, encoding: 'utf8' })
  .filter((path) => /\.(ya?ml|json)$/.test(path))
  .toSorted();

function renderFile(path: string): { readonly files: number; readonly errors: readonly Problem[] } {
  const loaded = load([{ file: path, text: readFileSync(join(root, path), 'utf8') }]);
  const { config, problems } = readConfig({ kubeProxy: loaded.kubeProxy });
  const rendered = render({
    base: [],
    change: loaded.objects,
    config,
    allocations: [],
    allocate: true,
    snapshot: false,
    strict: false,
  });
  const errors = [...loaded.problems, ...problems, ...rendered.problems].filter(({ level }) => level === 'error');
  return { files: rendered.files.size, errors };
}

test('the corpus is complete', () => {
  expect(files).toHaveLength(103);
});

test.each(files.filter((path) => !refused[path]?.codes.length))('%s renders', (path) => {
  const rendered = renderFile(path);
  expect(rendered.errors).toEqual([]);
  expect(rendered.files).toBeGreaterThan(0);
});

test.each(Object.entries(refused).filter(([, { codes }]) => codes.length > 0))(
  '%s is refused',
  (path, { codes, line }) => {
    const { errors } = renderFile(path);
    expect(errors.map(({ code }) => code)).toEqual(expect.arrayContaining([...codes]));
    expect(errors.map(({ at }) => [at?.file, at?.line])).toContainEqual([path, line]);
  },
);

test('every file with a NEGATIVE note is in the table', () => {
  const noted = notes.matchAll(/^### (\S+).*$|^\| (\S+) \|.*\| (NEGATIVE)/gm);
  let repository = '';
  const names: string[] = [];
  for (const [, heading, file] of noted) {
    if (heading !== undefined) repository = heading.replace('/', '__');
    else names.push(`${repository}/${file}`);
  }
  expect(names.length).toBeGreaterThan(5);
  expect(names.filter((name) => !(name in refused))).toEqual([]);
});
