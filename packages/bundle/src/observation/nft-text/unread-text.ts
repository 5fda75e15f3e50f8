/** Why a text is not what its tool prints, or which part of a rule is not read: that stays in the rule as a text. */
export class UnreadText extends Error {
  override readonly name = 'UnreadText';
  /** The line of the text, from 1; undefined where it is about all of it. */
  readonly line: number | undefined;

  constructor(message: string, line?: number) {
    super(message);
    this.line = line;
  }
}
