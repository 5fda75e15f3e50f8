import { type Family, type LinkRule, readLine, type RuleError } from '@sluice/bundle';

type Known = Readonly<Record<Family, Map<string, LinkRule>>>;

/**
 * Remembers what the grammar said about a rule. Reading 23,000 rules takes 100 ms, looking them up 5 ms. A rule that was refused is
 * not remembered: its bundle is not applied.
 */
export class RuleMemory {
  #young = nothing();
  #old = nothing();

  readonly read = (text: string, family: Family): LinkRule | RuleError => {
    const young = this.#young[family];
    const rule = young.get(text) ?? this.#old[family].get(text) ?? readLine(text, family);
    if (!('error' in rule)) young.set(text, rule);
    return rule;
  };

  /** Forgets what no rule since the last sweep asked for. */
  sweep(): void {
    this.#old = this.#young;
    this.#young = nothing();
  }
}

function nothing(): Known {
  return { ipv4: new Map(), ipv6: new Map() };
}
