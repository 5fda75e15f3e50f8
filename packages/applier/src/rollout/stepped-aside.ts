/** A look at the kernel ended early because something more urgent is to be done. Nothing was changed. */
export class SteppedAside extends Error {
  override readonly name = 'SteppedAside';

  constructor() {
    super('the look at the kernel was left off for something more urgent');
  }
}

/** @returns what `work` gives, or `aside` when it left off. @throws what `work` throws besides */
export async function orAside<T>(work: Promise<T>): Promise<T | 'aside'> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof SteppedAside) return 'aside';
    throw error;
  }
}
