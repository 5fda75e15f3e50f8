import type { EventSender } from '../../cluster/watch/events.ts';
import type { Quarantined } from '../../render/quarantine/ward.ts';

/** Tells what comes into quarantine and what leaves it: once, on the terminal and on the object. */
export class QuarantineWatch {
  readonly #say: (text: string) => void;
  readonly #events: EventSender | undefined;
  #inside = new Map<string, string>();

  constructor(say: (text: string) => void, events: EventSender | undefined) {
    this.#say = say;
    this.#events = events;
  }

  now({ quarantine }: { readonly quarantine: readonly Quarantined[] }): void {
    const next = new Map(quarantine.map((item) => [item.object, wordsOf(item)]));
    for (const [object, message] of next) {
      if (this.#inside.get(object) === message) continue;
      this.#say(`quarantine: ${object}: ${message}\n`);
      this.#events?.add({ object, reason: 'Quarantined', message });
    }
    for (const object of this.#inside.keys()) {
      if (next.has(object)) continue;
      this.#say(`quarantine: ${object} is good again\n`);
      this.#events?.add({ object, reason: 'Released', message: 'Its rules are what it says' });
    }
    this.#inside = next;
  }
}

function wordsOf({ rules, reasons }: Quarantined): string {
  const kept = rules === 'none' ? 'it has no rules' : 'its last good rules stay';
  return `${kept}: ${reasons.map(({ code, message }) => `${message} [${code}]`).join('; ')}`;
}
