import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { readConfig } from '../packages/renderer/src/load/config/config.ts';
import { load } from '../packages/renderer/src/load/load.ts';
import { readSources } from '../packages/renderer/src/load/sources.ts';
import type { JsonObject, KubeObject } from '../packages/renderer/src/render/model/kube.ts';
import { render } from '../packages/renderer/src/render/render.ts';
import { listExamples } from '../tools/examples.ts';

const v1beta1 = 'discovery.k8s.io/v1beta1';

/** A slice as an API server of 1.21 to 1.24 converts it to v1beta1 (`Convert_discovery_Endpoint_To_v1beta1_Endpoint`). */
function asBeta({ value }: KubeObject): JsonObject {
  const endpoints = ((value['endpoints'] ?? []) as readonly JsonObject[]).map(({ zone, nodeName, ...rest }, index) => ({
    ...rest,
    // nodeName exists since 1.20, with the same value.
    ...(nodeName !== undefined && index % 2 === 0 ? { nodeName } : {}),
    topology: {
      ...(zone === undefined ? {} : { 'topology.kubernetes.io/zone': zone }),
      ...(nodeName === undefined ? {} : { 'kubernetes.io/hostname': nodeName }),
    },
  }));
  return { ...value, apiVersion: v1beta1, endpoints };
}

async function* nothing(): AsyncGenerator<Uint8Array> {}

test.each(listExamples().filter(({ name }) => name !== 'gitops'))(
  'examples/$name renders to the same bytes with EndpointSlices of v1beta1',
  async ({ input, config: file }) => {
    const { sources } = await readSources([input], { recursive: false, stdin: nothing() });
    const { objects, kubeProxy } = load(sources);
    const sluice = file === undefined ? {} : { sluice: { file, text: readFileSync(file, 'utf8') } };
    const { config } = readConfig({ ...sluice, kubeProxy });
    const rendered = (change: readonly KubeObject[]) =>
      render({ base: [], change, config, allocations: [], allocate: true, snapshot: false, strict: false });
    const isSlice = ({ kind }: KubeObject): boolean => kind === 'EndpointSlice';
    const text = JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects.filter(isSlice).map(asBeta) });
    const old = load([{ file: 'beta.json', text }]);
    expect(old.problems).toEqual([]);
    expect(old.objects.every(({ apiVersion }) => apiVersion === v1beta1)).toBe(true);
    const [expected, actual] = [
      rendered(objects),
      rendered([...objects.filter((object) => !isSlice(object)), ...old.objects]),
    ];
    expect(expected.files.size).toBeGreaterThan(0);
    expect(actual.files).toEqual(expected.files);
    expect(actual.problems.filter(({ code }) => code === 'FIELD_UNKNOWN')).toEqual([]);
  },
);
