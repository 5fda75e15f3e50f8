/** Wakes a loop that waits. A ring without a wait ends the next wait at once. */
export class Bell {
  #isRung = false;
  #wake: (() => void) | undefined;

  ring(): void {
    this.#isRung = true;
    this.#wake?.();
  }

  /** Waits for a ring. @param ms the maximum */
  async wait(ms: number | undefined): Promise<void> {
    if (!this.#isRung) {
      let timer: NodeJS.Timeout | undefined;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        if (ms !== undefined) timer = setTimeout(resolve, ms);
      });
      clearTimeout(timer);
      this.#wake = undefined;
    }
    this.#isRung = false;
  }
}
