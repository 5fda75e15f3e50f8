import { type Family, type LinkRule, readLine, type RuleError } from '@sluice/bundle';

/**
 * Remembers what the grammar said about a rule. Reading 23,000 rules takes 100 ms, looking them up 5 ms. A rule that was refused is
 * not remembered: its bundle is not applied.
 */
export class RuleMemory {
  #young = new Map<string, LinkRule>();
  #old = new Map<string, LinkRule>();

  readonly read = (text: string, family: Family): LinkRule | RuleError => {
    const key = family === 'ipv4' ? text : `6${text}`;
    const rule = this.#young.get(key) ?? this.#old.get(key) ?? readLine(text, family);
    if (!('error' in rule)) this.#young.set(key, rule);
    return rule;
  };

  /** Forgets what no rule since the last sweep asked for. */
  sweep(): void {
    this.#old = this.#young;
    this.#young = new Map();
  }
}
