import type { Notice } from '../../cluster/watch/events.ts';
import type { Quarantined } from '../../render/quarantine/quarantine.ts';

/** Finds objects that enter or leave quarantine, each once. */
export class QuarantineWatch {
  #inside = new Map<string, string>();

  /** Takes the current quarantine. @returns what changed, as Events on the objects */
  now({ quarantine }: { readonly quarantine: readonly Quarantined[] }): readonly Notice[] {
    const next = new Map(quarantine.map((item) => [item.object, wordsOf(item)]));
    const entered = [...next].filter(([object, message]) => this.#inside.get(object) !== message);
    const left = [...this.#inside.keys()].filter((object) => !next.has(object));
    this.#inside = next;
    return [
      ...entered.map(([object, message]) => ({ object, reason: 'Quarantined', message }) as const),
      ...left.map((object) => ({ object, reason: 'Released', message: releasedMessage }) as const),
    ];
  }
}

const releasedMessage = 'The object is valid and rendered again';

function wordsOf({ rules, reasons }: Quarantined): string {
  const kept = rules === 'none' ? 'it has no rules' : 'its last good rules are kept';
  return `${kept}: ${reasons.map(({ code, message }) => `${message} [${code}]`).join('; ')}`;
}
