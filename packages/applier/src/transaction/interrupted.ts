/** Reading the kernel was interrupted for more urgent work. Nothing was changed. */
export class Interrupted extends Error {
  override readonly name = 'Interrupted';

  constructor() {
    super('reading the kernel was interrupted for more urgent work');
  }
}

/** @returns the result of `work`, or `interrupted`. @throws every other error of `work` */
export async function orInterrupted<T>(work: Promise<T>): Promise<T | 'interrupted'> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof Interrupted) return 'interrupted';
    throw error;
  }
}
