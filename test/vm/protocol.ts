/** The protocol between machine and guest: one JSON document a line, over a virtio port. */

/** Machine → guest. */
export type GuestRequest =
  | {
      readonly id: number;
      readonly do: 'run';
      readonly argv: readonly string[];
      readonly input: string;
      readonly timeoutMs: number;
      readonly cwd: string;
      readonly env: Readonly<Record<string, string>>;
    }
  | { readonly id: number; readonly do: 'put'; readonly path: string; readonly base64: string }
  | { readonly id: number; readonly do: 'get'; readonly path: string };

/** How a program in the guest ended. */
export interface GuestRun {
  /** null after a signal or the time-out. */
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
  /** The output was longer than the limit and is truncated. */
  readonly cut: boolean;
}

/** Guest → machine. The first line is `ready`. */
export type GuestReply =
  | { readonly ready: true }
  | ({ readonly id: number } & GuestRun)
  | { readonly id: number; readonly base64: string }
  | { readonly id: number; readonly error: string };

/** The port's name on both sides. */
export const portName = 'sluice.0';
/** The limit of a program's output, so that a runaway does not fill the port. */
export const outputBytesMax = 16 * 1024 * 1024;
