import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { TestContext } from 'vitest';
import { pinnedIn } from '../parity/binaries.ts';
import { build, findGo, type GoProgram, pathOf } from '../parity/build.ts';

/** helm, kubeconform and krew, built from the Go module proxy, and the schemas of Kubernetes 1.37. */

const module = join(import.meta.dirname, 'programs');
const program = (name: string, root: string, path: string, folder = module): GoProgram => ({
  name,
  module: folder,
  package: `${root}/${path}`,
  version: pinnedIn(folder, root),
});

const programs = {
  helm: program('helm', 'helm.sh/helm/v3', 'cmd/helm'),
  kubeconform: program('kubeconform', 'github.com/yannh/kubeconform', 'cmd/kubeconform'),
  // Of modules that are years older than those of helm.
  krew: program('krew', 'sigs.k8s.io/krew', 'cmd/krew', join(import.meta.dirname, 'krew')),
} as const;

/** A program; skips the test by name where it is not there and cannot be built. */
export async function need(context: TestContext, name: keyof typeof programs): Promise<string> {
  const found = await build(programs[name]);
  if ('lack' in found) context.skip(found.lack);
  return found.path;
}

interface Definition {
  readonly format?: string;
  readonly properties?: Readonly<Record<string, unknown>>;
  readonly 'x-kubernetes-group-version-kind'?: readonly {
    readonly group: string;
    readonly version: string;
    readonly kind: string;
  }[];
}

/**
 * The location of schemas for kubeconform, made from the OpenAPI document of Kubernetes in Go's module cache, or from the module proxy.
 * No object may have other fields than it names.
 */
export function needSchemas(context: TestContext): string {
  const folder = `${dirname(pathOf(programs.helm))}/schemas-${pinnedIn(kubernetes, 'k8s.io/kubernetes')}`;
  if (!existsSync(folder)) {
    const go = findGo();
    if (go === undefined) context.skip('the schemas of Kubernetes need Go');
    try {
      makeSchemas(go, folder);
    } catch (error) {
      context.skip(`the schemas of Kubernetes cannot be made: ${(error as Error).message.split('\n', 1)[0]}`);
    }
  }
  return `${folder}/{{ .ResourceKind }}{{ .KindSuffix }}.json`;
}

const kubernetes = join(import.meta.dirname, '..', 'parity', 'versions', '1.37');

/** OpenAPI 2 has no type for a string that may be a number: IntOrString. */
function closedSchema(one: Definition): object {
  if (one.format === 'int-or-string') return { type: ['string', 'integer'] };
  return one.properties ? { ...one, additionalProperties: false } : one;
}

function makeSchemas(go: string, folder: string): void {
  const found = execFileSync(go, ['mod', 'download', '-json', 'k8s.io/kubernetes'], {
    cwd: kubernetes,
    encoding: 'utf8',
  });
  const { Dir } = JSON.parse(found) as { Dir: string };
  const { definitions } = JSON.parse(readFileSync(join(Dir, 'api/openapi-spec/swagger.json'), 'utf8')) as {
    definitions: Readonly<Record<string, Definition>>;
  };
  const work = `${folder}-${process.pid}`;
  mkdirSync(work, { recursive: true });
  const closed = Object.entries(definitions).map(([name, one]) => [name, closedSchema(one)]);
  writeFileSync(join(work, '_definitions.json'), JSON.stringify({ definitions: Object.fromEntries(closed) as object }));
  for (const [name, one] of Object.entries(definitions)) {
    for (const { group, version, kind } of one['x-kubernetes-group-version-kind'] ?? []) {
      const suffix = [group.split('.')[0], version].filter(Boolean).join('-');
      const reference = JSON.stringify({ $ref: `_definitions.json#/definitions/${name}` });
      writeFileSync(join(work, `${kind.toLowerCase()}-${suffix}.json`.toLowerCase()), reference);
    }
  }
  if (!existsSync(folder)) renameSync(work, folder);
}
