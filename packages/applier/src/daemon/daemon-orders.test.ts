import { describe, expect, test } from 'vitest';
import { bundle, confirmed, quietDaemon, tree } from './daemon.fixture.ts';
import type { Daemon } from './daemon.ts';

const a = tree('a');

describe('an order of an operator', () => {
  /** Runs the loop; an order arrives while the first bundle is put in. */
  async function ordered() {
    const steps: string[] = [];
    let looks = 0;
    const daemon: Daemon = quietDaemon({
      reconciler: {
        put: async (_files, _byHand, offers) => {
          steps.push('put begins');
          if (looks === 1) {
            void daemon.order(async () => void steps.push('order')).then(() => daemon.poke());
            steps.push(offers?.isEnding?.() ? 'put shall end' : 'put goes on');
          }
          steps.push('put ends');
          return confirmed;
        },
      },
      inbox: {
        look: async () => {
          if (++looks === 2) daemon.stop();
          return bundle(a);
        },
      },
    });
    await daemon.run();
    return steps;
  }

  test('cancels a release on probation, waits for its end, and has the whole directory read again', async () => {
    expect(await ordered()).toEqual(['put begins', 'put shall end', 'put ends', 'order', 'put begins', 'put ends']);
  });

  test('lets every second release end its own probation, and the loop go on, however many arrive', async () => {
    const endings: string[] = [];
    let [rounds, orders] = [0, 0];
    const daemon: Daemon = quietDaemon({
      reconciler: {
        put: async (_files, _byHand, offers) => {
          // A probation of three rounds.
          for (let round = 0; round < 3; round++) {
            await Promise.resolve();
            if (!offers?.isEnding?.()) continue;
            endings.push('ended');
            return { kind: 'rolled-back', because: 'sluiced was stopped during probation' };
          }
          endings.push('confirmed');
          return confirmed;
        },
      },
      inbox: { look: async () => bundle(tree(`release ${rounds}`)) },
      round: async () => {
        if (++rounds === 6) daemon.stop();
      },
    });
    const flood = async (): Promise<void> => {
      for (let sent = 0; sent < 600; sent++) {
        if (rounds >= 6) return;
        orders++;
        await daemon.order(async () => undefined).catch(() => undefined);
      }
    };
    await Promise.all([daemon.run(), ...Array.from({ length: 16 }, flood)]);
    expect(endings.slice(0, 6)).toEqual(['ended', 'confirmed', 'ended', 'confirmed', 'ended', 'confirmed']);
    expect(orders, 'some are left').toBeLessThan(16 * 600);
  });
});
