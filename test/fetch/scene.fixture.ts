import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeEach } from 'vitest';
import { GateScene } from '../../packages/applier/src/testing/gate.fixture.ts';

interface SourceScene {
  readonly scene: GateScene;
  /** A path in the directory of a server, which is made anew for each test. */
  readonly at: (name: string) => string;
  /** Closes a server at the end of the test. */
  readonly closed: <T extends { close(): void }>(server: T) => T;
}

/** For each test of a file: a node that requires signatures and has fetched nothing, and servers of releases. */
export function sourceScene(): SourceScene {
  const scene = new GateScene();
  const at = (name: string): string => join(scene.scratch, 'server', name);
  const closing: { close(): void }[] = [];
  beforeEach(() => {
    scene.reset();
    for (const name of ['server', 'fetched']) rmSync(join(scene.scratch, name), { recursive: true, force: true });
    mkdirSync(at(''), { recursive: true });
  });
  afterEach(() => {
    for (const one of closing.splice(0)) one.close();
  });
  afterAll(scene.end);
  return { scene, at, closed: (server) => (closing.push(server), server) };
}
