import { expect, test } from 'vitest';
import { ignoredText } from './ignored.ts';

test.each<[Record<string, number>, string]>([
  [{}, ''],
  [{ Deployment: 1 }, 'Ignored 1 object of another kind (1 Deployment)\n'],
  [{ Deployment: 14 }, 'Ignored 14 objects of other kinds (14 Deployments)\n'],
  [
    { Gateway: 2, Ingress: 3, NetworkPolicy: 2, Pod: 1, 'Service.serving.knative.dev': 2 },
    'Ignored 10 objects of other kinds (2 Gateways, 3 Ingresses, 2 NetworkPolicies, 1 Pod, 2 Services.serving.knative.dev)\n',
  ],
])('prints %j in one line', (kinds, text) => {
  expect(ignoredText(new Map(Object.entries(kinds)))).toBe(text);
});
