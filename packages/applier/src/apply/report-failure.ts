import { messageOf } from '../message.ts';
import type { Ports } from '../ports/ports.ts';

/** Does work whose failure prevents nothing: reports it as `event`, with the reason. */
export async function orReport(event: string, { report }: Pick<Ports, 'report'>, work: () => unknown): Promise<void> {
  try {
    await work();
  } catch (error) {
    report(event, { because: messageOf(error) });
  }
}
