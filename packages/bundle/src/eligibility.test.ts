// @module-tag quick
import { expect, test } from 'vitest';
import { isProblem, readNode } from './documents.ts';
import { ineligibilityIn, ineligibilityLine, ineligibilityOf } from './eligibility.ts';

const text = 'apiVersion: sluice.dev/v1alpha1\nkind: Node\nprofile: default\nvalues: {}\n';

test.each(['ToBeDeletedByClusterAutoscaler', 'deletionTimestamp', 'DrainInProgress', 'Drained', undefined] as const)(
  'reads %s, and the node beside it as before',
  (why) => {
    const marked = ineligibilityLine(why) + text;
    expect(ineligibilityIn(marked)).toBe(why);
    expect(isProblem(readNode('n', marked))).toBe(false);
    expect(readNode('n', marked)).toEqual(readNode('n', text));
  },
);

test.each([
  ['another reason', `# nodeEligible: false, because\n${text}`],
  ['another place', `${text}# nodeEligible: false, deletionTimestamp\n`],
  ['a longer line', `# nodeEligible: false, deletionTimestamp 1\n${text}`],
])('takes %s for a comment', (_title, body) => {
  expect(ineligibilityIn(body)).toBeUndefined();
});

const cluster = (complete: boolean): string =>
  `apiVersion: sluice.dev/v1alpha1\nkind: Cluster\nformat: 1\nname: shop\ncomplete: ${complete}\nserviceCIDRs: []\n`;

test.each([
  ['a Node that a whole cluster lacks is deleted', cluster(true), ['b'], 'deletionTimestamp'],
  ['one that is there is not', cluster(true), ['a', 'b'], undefined],
  ['a part of a cluster says nothing', cluster(false), ['b'], undefined],
  ['a bundle without any Node says nothing', cluster(true), [], undefined],
] as const)('%s', (_title, head, nodes, why) => {
  const files = new Map([['cluster.yaml', head], ...nodes.map((name) => [`nodes/${name}/node.yaml`, text] as const)]);
  expect(ineligibilityOf(files, 'a')).toBe(why);
});
