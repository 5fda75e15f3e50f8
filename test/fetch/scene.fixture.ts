import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeEach } from 'vitest';
import { sampleNode } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { GateScene } from '../../packages/applier/src/testing/gate.fixture.ts';

interface SourceScene {
  readonly scene: GateScene;
  /** A path in the directory of a server, which is made anew for each test. */
  readonly at: (name: string) => string;
  /** The fetch directory. */
  readonly fetched: string;
  /** The path of a `sluiced.yaml`. */
  readonly config: string;
  /** Writes that file for the node. @param source with what else it has */
  readonly writeConfig: (source: string) => void;
  /** Closes a server at the end of the test. */
  readonly closed: <T extends { close(): void }>(server: T) => T;
}

/** For each test of a file: a node that requires signatures and has fetched nothing, and servers of releases. */
export function sourceScene(): SourceScene {
  const scene = new GateScene();
  const at = (name: string): string => join(scene.scratch, 'server', name);
  const [fetched, config] = [join(scene.scratch, 'fetched'), join(scene.scratch, 'sluiced.yaml')];
  const closing: { close(): void }[] = [];
  beforeEach(() => {
    scene.reset();
    for (const dir of [at(''), fetched]) rmSync(dir, { recursive: true, force: true });
    mkdirSync(at(''), { recursive: true });
  });
  afterEach(() => {
    for (const one of closing.splice(0)) one.close();
  });
  afterAll(scene.end);
  return {
    scene,
    at,
    fetched,
    config,
    writeConfig(source) {
      const signatures = `signatures: { allowedSigners: ${scene.signersFile} }`;
      const head = `apiVersion: sluice.dev/v1alpha1\nkind: SluicedConfig\nnode: ${sampleNode}\n`;
      writeFileSync(config, `${head}${signatures}\n${source}\n`, { mode: 0o644 });
    },
    closed: (server) => (closing.push(server), server),
  };
}
