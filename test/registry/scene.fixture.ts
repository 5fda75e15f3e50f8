import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeEach, vi } from 'vitest';
import { type Ran, sluice } from '../../packages/sluice/src/in-process.fixture.ts';
import { FakeRegistry, type Nature } from './fake.fixture.ts';
import { makeSampleRelease } from './release.fixture.ts';

interface RegistryScene {
  /** A path in the directory of the scene, which is made anew for each test. */
  readonly at: (name: string) => string;
  /** Starts a registry, which ends with the test. */
  readonly start: (nature?: Nature) => Promise<FakeRegistry>;
  /** Those of the test, in the order of their start. */
  readonly started: readonly FakeRegistry[];
  readonly push: (registry: FakeRegistry) => Promise<Ran>;
  readonly pull: (reference: string) => Promise<Ran>;
}

/** For each test of a file: a release in `release`, an empty docker config in `docker`, no proxy, and registries. */
export function registryScene(): RegistryScene {
  const scratch = mkdtempSync(join(tmpdir(), 'sluice-registry-'));
  const at = (name: string): string => join(scratch, name);
  const started: FakeRegistry[] = [];
  beforeEach(() => {
    for (const name of readdirSync(scratch)) rmSync(at(name), { recursive: true });
    mkdirSync(at('docker'));
    vi.stubEnv('DOCKER_CONFIG', at('docker'));
    for (const name of ['HTTPS_PROXY', 'https_proxy']) vi.stubEnv(name, '');
    makeSampleRelease(at('release'), 1);
  });
  afterEach(() => {
    vi.unstubAllEnvs();
    for (const registry of started.splice(0)) registry.close();
  });
  afterAll(() => rmSync(scratch, { recursive: true, force: true }));
  return {
    at,
    started,
    start: async (nature = {}) => {
      const registry = await FakeRegistry.open(nature);
      started.push(registry);
      return registry;
    },
    push: (registry) => sluice('push', at('release'), `${registry.host}/shop:1`),
    pull: (reference) => sluice('pull', reference.trim(), '-o', at('pulled')),
  };
}
