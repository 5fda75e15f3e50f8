import { expect, test } from 'vitest';
import { kubeProxyImages } from '../commands/init/init.ts';

const daemonSet = (image: string): string => `apiVersion: apps/v1
kind: DaemonSet
metadata: { name: kube-proxy, namespace: kube-system }
spec: { template: { spec: { containers: [{ name: kube-proxy, image: ${JSON.stringify(image)} }] } } }
`;
const listed = (...texts: readonly string[]): string =>
  `apiVersion: v1\nkind: List\nitems:\n${texts.map((text) => text.replace(/^/gm, '    ').replace('    ', '  - ')).join('\n')}`;

test.each<[string, string, readonly string[]]>([
  ['a DaemonSet', daemonSet('registry.k8s.io/kube-proxy:v1.34.2'), ['1.34']],
  ['an image with a digest', daemonSet('registry.k8s.io/kube-proxy:v1.34.2@sha256:00'), ['1.34']],
  ['an image of a platform', daemonSet('registry.k8s.io/kube-proxy-amd64:v1.30.14-eks.1'), ['1.30']],
  [
    'a list beside another object',
    listed('kind: ConfigMap\napiVersion: v1', daemonSet('kube-proxy:v1.31.0')),
    ['1.31'],
  ],
  ['two documents', `${daemonSet('kube-proxy:v1.36.1')}---\n${daemonSet('kube-proxy:v1.35.1')}`, ['1.35', '1.36']],
  [
    'a static pod of GKE',
    'kind: Pod\napiVersion: v1\nspec: {containers: [{image: "gke.gcr.io/kube-proxy-amd64:v1.33.5-gke.1"}]}',
    ['1.33'],
  ],
  ['a version that is not known', daemonSet('kube-proxy:v1.27.0'), []],
  ['no version', daemonSet('kube-proxy:latest'), []],
  ['another image', daemonSet('registry.example.com/my-kube-proxy:v1.34.2'), []],
  ['a DaemonSet without containers', 'kind: DaemonSet\napiVersion: apps/v1\nspec: {}', []],
  ['no YAML', '{', []],
])('%s', (_title, text, expected) => {
  expect(kubeProxyImages([{ file: 'all.yaml', text }])).toEqual(expected);
});
