/** The kernel differs from the desired state after a repair: another program undoes it, or the kernel changes the rules. */
export class StillDiffers extends Error {
  override readonly name = 'StillDiffers';

  /** @param steps that are missing still, in words */
  constructor(steps: readonly string[]) {
    super(`the kernel still differs: ${steps.join('; ')}`);
  }
}
