/** What wakes the loop: an event of the bundle directory, a stop, a change in the kernel. */
export class Wakes {
  #wake = Promise.withResolvers<void>();
  /** As `#wake`, for a wait during probation; replaced after each look. */
  #arrived = Promise.withResolvers<void>();
  /** Ends a rest because the kernel changed. */
  #kernelChanged = Promise.withResolvers<false>();

  /** The bundle directory, an operator or a stop wants the loop. */
  wake(): void {
    this.#wake.resolve();
    this.#arrived.resolve();
  }

  kernelChanged(): void {
    this.#kernelChanged.resolve(false);
  }

  /** A round begins: what woke it counts no more. */
  begin(): void {
    this.#wake = Promise.withResolvers();
  }

  /** @returns true after `wake`, false after the time or a change in the kernel */
  async rest(ms: number): Promise<boolean> {
    this.#kernelChanged = Promise.withResolvers();
    const { promise, resolve } = this.#kernelChanged;
    const timer = setTimeout(() => resolve(false), ms);
    const woken = await Promise.race([this.#wake.promise.then(() => true), promise]);
    clearTimeout(timer);
    return woken;
  }

  /** Aborts on `wake`. */
  signal(): AbortSignal {
    const controller = new AbortController();
    void this.#wake.promise.then(() => controller.abort());
    return controller.signal;
  }

  /** The next event of the bundle directory; the same promise until `listen`. */
  get arrival(): Promise<void> {
    return this.#arrived.promise;
  }

  /** Events from here on resolve the next `arrival`. */
  listen(): void {
    this.#arrived = Promise.withResolvers();
  }

  /** As after an event of the bundle directory, for a change in progress alone. */
  arrive(): void {
    this.#arrived.resolve();
  }
}
