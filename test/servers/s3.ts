import { join } from 'node:path';
import type { TestContext } from 'vitest';
import { pinnedIn } from '../parity/binaries.ts';
import { build } from '../parity/build.ts';
import { Server } from './server.ts';

const module = join(import.meta.dirname, 's3');
const root = 'github.com/johannesboyne/gofakes3';

/** An S3 server with one empty bucket, in memory, built of a Go module; skips the test by name where it cannot be built. */
export async function startS3(context: TestContext, bucket: string): Promise<Server> {
  const built = await build({
    name: 'gofakes3',
    module,
    package: `${root}/cmd/gofakes3`,
    version: pinnedIn(module, root),
  });
  if ('lack' in built) context.skip(built.lack);
  return Server.start('s3', (_folder, port) => ({
    argv: [built.path, '-backend', 'memory', '-initialbucket', bucket, '-host', `127.0.0.1:${port}`, '-quiet'],
  }));
}
