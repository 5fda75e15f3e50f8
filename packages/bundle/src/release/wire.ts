/** Reads the data types of RFC 4251, section 5. Reads past the end return undefined. */
export class WireReader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get atEnd(): boolean {
    return this.#at === this.#bytes.length;
  }

  take(length: number): Buffer | undefined {
    if (length > this.#bytes.length - this.#at) return undefined;
    this.#at += length;
    return this.#bytes.subarray(this.#at - length, this.#at);
  }

  /** A `uint32`. */
  number(): number | undefined {
    return this.take(4)?.readUInt32BE(0);
  }

  /** A `string`; `mpint` has the same form. */
  text(): Buffer | undefined {
    const length = this.number();
    return length === undefined ? undefined : this.take(length);
  }
}
