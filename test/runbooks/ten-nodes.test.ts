// @module-tag all
import { chmodSync, copyFileSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { expect, test } from 'vitest';
import { needBackend, needKernel } from '../netns/privileges.ts';
import { needProgram } from '../servers/debian.ts';
import { nginxPackages, nginxPath } from '../servers/nginx.ts';
import { needS3 } from '../servers/s3.ts';
import { readRunbook, standInsOf } from './runbook.ts';
import { surprises } from './stage.ts';

const page = readRunbook(readFileSync(join(import.meta.dirname, '../../docs/ten-nodes.md'), 'utf8'));
const limitMs = 600_000;

/** Packages of Debian, by program; the first one has it. */
const servers: Readonly<Record<string, readonly string[]>> = {
  '/usr/bin/docker-registry': ['docker-registry'],
  [nginxPath]: nginxPackages,
  '/usr/sbin/sshd': ['openssh-server', 'libwrap0'],
  '/usr/sbin/fcgiwrap': ['fcgiwrap', 'libfcgi0ldbl'],
};

test('docs/ten-nodes.md marks the commands that need real hosts', () => {
  expect(standInsOf(page)).toEqual({ scp: 2, ssh: 11 });
});

test('every block of docs/ten-nodes.md does what it says', { timeout: limitMs + 60_000 }, async (context) => {
  needKernel(context);
  needBackend(context, 'nft');
  // The stage hides the home, where they are unpacked.
  const folder = mkdtempSync(join(tmpdir(), 'sluice-servers-'));
  try {
    // Not all of them run as root.
    chmodSync(folder, 0o755);
    mkdirSync(join(folder, 'lib'));
    copyFileSync(await needS3(context), join(folder, 'gofakes3'));
    for (const [path, packages] of Object.entries(servers)) {
      const program = await needProgram(context, path, packages);
      copyFileSync(program.path, join(folder, basename(path)));
      const libraries = (program.env['LD_LIBRARY_PATH'] ?? '').split(':').filter(Boolean);
      for (const file of libraries.flatMap((one) => globSync(join(one, '*.so.*'))))
        copyFileSync(file, join(folder, 'lib', basename(file)));
    }
    const env = { SERVERS: folder, LD_LIBRARY_PATH: join(folder, 'lib') };
    expect(surprises(page, env, limitMs)).toEqual([]);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
