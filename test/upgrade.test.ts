import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { peek } from '../packages/applier/src/state/peek.ts';
import { gatherEvidence } from '../packages/delivery/src/commands/evidence/evidence.ts';
import { stagedRelease, targetOf } from '../packages/delivery/src/commands/evidence/target.ts';
import { isHealthyFleet, judgeFleet } from '../packages/delivery/src/fleet/fleet.ts';
import { setups, upgradeFolder, versions } from './upgrade/node.ts';

/** Data of earlier versions, read by this one; `netns/upgrade.test.ts` runs them on a kernel. */

test('has data of at least one version', () => {
  expect(versions).toContain('0.1.0');
});

describe.each(versions)('version %s', (version) => {
  const folder = join(upgradeFolder, version);

  test.each(setups)('$name: the state and its signed receipts name the same confirmed release', async ({ name }) => {
    const own = join(folder, name);
    const target = targetOf(stagedRelease(join(folder, 'release')));
    const { evidence, foreignNodes } = await gatherEvidence(
      { dir: join(own, 'receipts') },
      join(own, 'allowed_receipts'),
    );
    const fleet = judgeFleet(evidence, foreignNodes, { ...target, nodes: ['node-1'] });
    expect(fleet.rows).toMatchObject([{ node: 'node-1', state: 'runs', why: null, receipt: { sluiced: version } }]);
    expect(isHealthyFleet(fleet)).toBe(true);
    const { generation } = fleet.rows[0]?.receipt?.standing ?? {};
    expect(peek(join(own, 'state'))).toMatchObject({ node: 'node-1', open: null, current: { number: generation } });
  });

  test('its endpoint update belongs to its release', () => {
    const update = stagedRelease(join(folder, 'update'));
    expect(update.release).toMatchObject({ cluster: 'upgrade', serial: 2, revision: 1 });
  });

  test('it has no private key and no path of the machine that wrote it', () => {
    const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
    const paths = files.map(({ parentPath, name }) => join(parentPath, name));
    expect(paths.length).toBeGreaterThan(50);
    const told = /PRIVATE KEY|\/(?:tmp|home|root|work)\//;
    expect(paths.filter((path) => told.test(readFileSync(path, 'latin1')))).toEqual([]);
  });
});
