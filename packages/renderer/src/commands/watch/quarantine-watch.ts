import type { Log } from '@sluice/cli/log';
import type { EventSender } from '../../cluster/watch/events.ts';
import type { Quarantined } from '../../render/quarantine/quarantine.ts';

/** Reports objects that enter or leave quarantine: once, in the log and as an Event on the object. */
export class QuarantineWatch {
  readonly #log: Pick<Log, 'info' | 'warn'>;
  readonly #events: EventSender | undefined;
  #inside = new Map<string, string>();

  constructor(log: Pick<Log, 'info' | 'warn'>, events: EventSender | undefined) {
    this.#log = log;
    this.#events = events;
  }

  now({ quarantine }: { readonly quarantine: readonly Quarantined[] }): void {
    const next = new Map(quarantine.map((item) => [item.object, wordsOf(item)]));
    for (const [object, message] of next) {
      if (this.#inside.get(object) === message) continue;
      this.#log.warn({ object }, `quarantine: ${object}: ${message}`);
      this.#events?.add({ object, reason: 'Quarantined', message });
    }
    for (const object of this.#inside.keys()) {
      if (next.has(object)) continue;
      this.#log.info({ object }, `quarantine: ${object} is valid again`);
      this.#events?.add({ object, reason: 'Released', message: 'The object is valid and rendered again' });
    }
    this.#inside = next;
  }
}

function wordsOf({ rules, reasons }: Quarantined): string {
  const kept = rules === 'none' ? 'it has no rules' : 'its last good rules are kept';
  return `${kept}: ${reasons.map(({ code, message }) => `${message} [${code}]`).join('; ')}`;
}
