import type { SluicedConfig } from '../../config.ts';
import { type Arrival, Inbox } from '../../inbox/inbox.ts';
import { trustOf } from '../../inbox/trust.ts';
import { gateOf } from './gate.ts';

/**
 * Reads the bundle as the daemon does, without accepting it.
 * @param vouched an operator named the directory: its write permissions are not checked
 */
export function lookAt(config: SluicedConfig, vouched: boolean): Promise<Arrival> {
  const trust = vouched ? undefined : trustOf(config.bundleOwner, config.source?.directory);
  return new Inbox(
    config.bundle,
    Date.now,
    trust,
    gateOf(config, () => false),
  ).look();
}
