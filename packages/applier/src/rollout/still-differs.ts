/** A repair was carried out, and yet the kernel is not what it should be: somebody else undoes it, or it holds something else than it was told. */
export class StillDiffers extends Error {
  override readonly name = 'StillDiffers';

  /** @param steps what would have to be done again */
  constructor(steps: readonly string[]) {
    super(`the kernel still differs: ${steps.join('; ')}`);
  }
}
