import { messageOf } from '../message.ts';
import type { Ports } from '../ports/ports.ts';

/** Writes the declined endpoints. If the disk does not take them, the only cost is a failing probe after the next start. */
export function decline(
  all: ReadonlyMap<string, string>,
  { declined, report }: Pick<Ports, 'declined' | 'report'>,
): void {
  try {
    declined.write(all);
  } catch (error) {
    report('declined-not-written', { because: messageOf(error) });
  }
}
