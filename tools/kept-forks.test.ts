import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';
import { afterEach, beforeEach, expect, test } from 'vitest';

const root = join(import.meta.dirname, '..');

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-kept-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Runs four files of each of two projects, two of one and two of the other by turns. @returns lines `PROJECT PID` and the exit code */
async function run(
  body: string,
): Promise<{ readonly lines: readonly string[]; readonly exitCode: number | undefined }> {
  const log = join(folder, 'log');
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  writeFileSync(log, '');
  for (const project of ['a', 'b']) {
    mkdirSync(join(folder, project));
    for (const n of [1, 2, 3, 4])
      writeFileSync(
        join(folder, project, `${n}.test.ts`),
        `import { appendFileSync } from 'node:fs';
import { test } from 'vitest';
test('notes its process', () => {
  appendFileSync(${JSON.stringify(log)}, '${project} ' + process.pid + '\\n');
  ${body}
});\n`,
      );
  }
  writeFileSync(join(folder, 'vitest.config.mjs'), config);
  const { exitCode } = await execa(process.execPath, [join(root, 'node_modules/vitest/vitest.mjs'), 'run'], {
    cwd: folder,
    reject: false,
    timeout: 120_000,
  });
  return { lines: readFileSync(log, 'utf8').split('\n').filter(Boolean), exitCode };
}

const config = `import { BaseSequencer } from 'vitest/node';
import { endKeptForks, keptForks } from ${JSON.stringify(join(root, 'tools/kept-forks.ts'))};
class ByTurns extends BaseSequencer {
  async sort(files) {
    const at = ({ moduleId, project }) => [Math.ceil(Number(moduleId.at(-9)) / 2), project.name, moduleId].join();
    return files.toSorted((one, other) => (at(one) < at(other) ? -1 : 1));
  }
}
const together = { isolate: false, pool: keptForks, maxWorkers: 2, sequence: { groupOrder: 0 } };
export default {
  test: {
    sequence: { sequencer: ByTurns },
    reporters: ['default', { onTestRunEnd: endKeptForks }],
    projects: ['a', 'b'].map((name) => ({ test: { name, include: [name + '/*.test.ts'], ...together } })),
  },
};
`;

test('files of two projects by turns run in two processes of each at most, and none is left', async () => {
  const { lines, exitCode } = await run('');
  expect([exitCode, lines.length]).toEqual([0, 8]);
  const processes = new Set(lines);
  expect(processes.size).toBeLessThanOrEqual(4);
  for (const line of processes) expect(() => process.kill(Number(line.split(' ')[1]), 0)).toThrow('ESRCH');
});

test('a process that a file has killed is replaced, and the run has failed', async () => {
  const kill = "if (import.meta.url.endsWith('a/2.test.ts')) process.kill(process.pid, 'SIGKILL');";
  const { lines, exitCode } = await run(kill);
  expect([exitCode, lines.length]).toEqual([1, 8]);
});

test('no module of several files sets hooks when it is loaded: a process loads it once', () => {
  const modules = globSync(['test/**/*.ts', 'packages/*/src/**/*.fixture.ts'], { cwd: root });
  const hooks = /^(?:before|after)(?:Each|All)\(/m;
  const shared = modules.filter((path) => !path.endsWith('.test.ts'));
  expect(shared.length).toBeGreaterThan(100);
  expect(shared.filter((path) => hooks.test(readFileSync(join(root, path), 'utf8')))).toEqual([]);
});
