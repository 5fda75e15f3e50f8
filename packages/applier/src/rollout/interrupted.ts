/** A look at the kernel ended early because something more urgent is to be done. Nothing was changed. */
export class Interrupted extends Error {
  override readonly name = 'Interrupted';

  constructor() {
    super('the look at the kernel was left off for something more urgent');
  }
}

/** @returns what `work` gives, or `interrupt` when it left off. @throws what `work` throws besides */
export async function orInterrupted<T>(work: Promise<T>): Promise<T | 'interrupted'> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof Interrupted) return 'interrupted';
    throw error;
  }
}
