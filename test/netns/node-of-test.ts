import { afterEach, beforeEach } from 'vitest';
import { needKernel } from './privileges.ts';
import { SluicedNode } from './sluiced-node.ts';

/** The node of a test, from the hooks of `withNode`. */
export let node: SluicedNode;

/** Sets the hooks of a file: each of its tests has a node of its own. */
export function withNode(): void {
  beforeEach(needKernel);
  beforeEach(async () => {
    node = await SluicedNode.make();
  });
  afterEach(() => node.remove());
}
