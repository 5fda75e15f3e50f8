import type { Run, ToolResult } from '../command.ts';

/** Carries out texts in mode nftables, each as one transaction. */
export interface NftWriter {
  /** @returns like `nft -f -`: exit code 0 when the kernel took all of it, another one when it took nothing, none when it is not known */
  write(text: string): Promise<ToolResult>;
}

/** A new process for each transaction. */
export class OneShotWriter implements NftWriter {
  readonly #nft: string;
  readonly #run: Run;

  /** @param nft the path of the tool */
  constructor(nft: string, run: Run) {
    this.#nft = nft;
    this.#run = run;
  }

  write(text: string): Promise<ToolResult> {
    const kind = { isSmall: true, changesTables: true, isOneText: true };
    return this.#run({ file: this.#nft, args: ['-f', '-'], input: text, ...kind });
  }
}
