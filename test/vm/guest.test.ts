// @module-tag all
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { bootGuest, emptyDisk } from './guest.ts';
import { whyNoGuest } from './image.ts';

const reason = whyNoGuest();

test('flushed data are on the disk after a power cut', { timeout: 180_000 }, async ({ skip }) => {
  if (reason !== undefined) skip(reason);
  const folder = mkdtempSync(join(tmpdir(), 'sluice-disk-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const disk = join(folder, 'disk.img');
  emptyDisk(disk, 64);
  {
    await using guest = await bootGuest({ disk });
    const written = await guest.run('mkdir -p /disk && mount /dev/vdc /disk && echo kept > /disk/file && sync');
    expect(written).toMatchObject({ code: 0, stderr: '' });
    await guest.kill();
    await expect(guest.run('true')).rejects.toThrow('the guest has ended');
  }
  await using again = await bootGuest({ disk });
  expect(await again.run('mount /dev/vdc /disk && cat /disk/file')).toMatchObject({ code: 0, stdout: 'kept\n' });
});

test('ends a program after its time-out, with all its children', { timeout: 120_000 }, async ({ skip }) => {
  if (reason !== undefined) skip(reason);
  await using guest = await bootGuest();
  const late = await guest.run('setsid sleep 60 & echo started', { timeoutMs: 2_000 });
  expect(late).toMatchObject({ code: null, stdout: 'started\n' });
  expect(await guest.run('echo alive')).toMatchObject({ code: 0, stdout: 'alive\n' });
});
