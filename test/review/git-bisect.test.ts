import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { programPath } from '@sluice/testing';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { SampleRepository } from '../../packages/renderer/src/commands/bundle/repository.fixture.ts';

/** docs/review.md: git's own bisect finds the commit of a question that has two answers, as `sluice bisect` does. */

let repository: SampleRepository;
beforeEach(() => {
  repository = new SampleRepository();
});
afterEach(() => repository.destroy());

const question = ['--node', 'node-1', '--from', '10.244.1.200', '--to', '10.96.0.10:80/tcp'];

test("git's own bisect finds the commit that `sluice bisect` finds, and leaves the work tree alone", () => {
  const commits = [[5, 6], [5], [7], [], []].map((last, at) => {
    repository.endpoints(...last);
    repository.write('README.md', `${at}`);
    return repository.commit(`commit ${at}`);
  });
  const [first = '', , , guilty = ''] = commits;
  const sluice = programPath('sluice');
  repository.write('README.md', 'not committed yet');
  repository.git('bisect', 'start', '--no-checkout', 'HEAD', first);
  const asked = `! "${process.execPath}" "${sluice}" trace BISECT_HEAD:rendered ${question.join(' ')} | grep -q REJECT`;
  const said = repository.git('bisect', 'run', 'sh', '-c', asked);
  expect(said).toContain(`${guilty} is the first bad commit`);
  expect(repository.git('status', '--short', 'README.md')).toBe('M README.md');
  repository.git('bisect', 'reset');
  const own = execFileSync(
    process.execPath,
    [
      sluice,
      'bisect',
      '--from',
      first,
      '--ignore-endpoints',
      '--',
      'trace',
      join(repository.root, 'rendered'),
      ...question,
    ],
    { encoding: 'utf8', cwd: repository.root },
  );
  expect(own).toContain(`changed with\ncommit ${guilty.slice(0, 12)} `);
});
