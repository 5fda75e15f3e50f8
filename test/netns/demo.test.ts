import { beforeEach, expect, test } from 'vitest';
import { runDemo } from '../demo/demo.ts';
import { needKernel } from './privileges.ts';

beforeEach(needKernel);

test('the demo ends well, from the manifests to the way back', async () => {
  const story: string[] = [];
  await runDemo({ say: (line) => story.push(line), short: true });
  expect(story.at(-1)).toContain('That is all');
});
