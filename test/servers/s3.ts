import { join } from 'node:path';
import type { TestContext } from 'vitest';
import { pinnedIn } from '../parity/binaries.ts';
import { build } from '../parity/build.ts';
import { Server } from './server.ts';

const module = join(import.meta.dirname, 's3');
const root = 'github.com/johannesboyne/gofakes3';

/** The path of an S3 server, built of a Go module; skips the test by name where it cannot be built. */
export async function needS3(context: TestContext): Promise<string> {
  const version = pinnedIn(module, root);
  const built = await build({ name: 'gofakes3', module, package: `${root}/cmd/gofakes3`, version });
  if ('lack' in built) context.skip(built.lack);
  return built.path;
}

/** The server on loopback, with one empty bucket, in memory. */
export async function startS3(context: TestContext, bucket: string): Promise<Server> {
  const path = await needS3(context);
  return Server.start('s3', (_folder, port) => ({
    argv: [path, '-backend', 'memory', '-initialbucket', bucket, '-host', `127.0.0.1:${port}`, '-quiet'],
  }));
}
