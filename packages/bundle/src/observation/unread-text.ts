/** Why a text is not what its tool prints. */
export class UnreadText extends Error {
  override readonly name = 'UnreadText';
  /** The line of the text, from 1; undefined where it is about all of it. */
  readonly line: number | undefined;

  constructor(message: string, line?: number) {
    super(message);
    this.line = line;
  }
}
