/** A line of `git ls-tree -r -z`. */
export interface TreeLine {
  /** `100644`; a link has `120000`, a submodule `160000`. */
  readonly mode: string;
  readonly id: string;
  /** In bytes, with `-l`; undefined without it, and for what has no size. */
  readonly size: number | undefined;
  readonly path: string;
}

/** Whether a mode is that of a regular file, executable or not. */
export const isRegular = ({ mode }: Pick<TreeLine, 'mode'>): boolean => mode.startsWith('100');

/**
 * Reads the output of `git ls-tree -r -z`, with `-l` or without.
 * @throws Error for a line of another form
 */
export function readTreeLines(output: Buffer): readonly TreeLine[] {
  return output
    .toString('utf8')
    .split('\0')
    .filter((line) => line !== '')
    .map((line) => {
      const [, mode, id, digits = '', path] = /^(\d+) \S+ ([0-9a-f]+)(?: +(\S+))?\t(.*)$/s.exec(line) ?? [];
      if (mode === undefined || id === undefined || path === undefined)
        throw new Error(`git lists ${JSON.stringify(line)}, which is not a line of a tree`);
      return { mode, id, size: /^\d+$/.test(digits) ? Number(digits) : undefined, path };
    });
}

/** An object as `git cat-file --batch` prints it. */
export interface BatchObject {
  readonly id: string;
  /** `blob`; `missing` without any bytes. */
  readonly kind: string;
  /** Views of the output, not copies. */
  readonly bytes: Buffer;
}

/**
 * The objects in the output of `git cat-file --batch`, in order: `<id> <kind> <size>\n<bytes>\n` each. One whose bytes are truncated is left
 * out.
 */
export function* readBatch(output: Buffer): Generator<BatchObject, undefined> {
  for (let at = 0; at < output.length; ) {
    const end = output.indexOf(0x0a, at);
    if (end < 0) return undefined;
    const [id = '', kind = '', digits] = output.toString('latin1', at, end).split(' ');
    const size = digits === undefined ? 0 : Number(digits);
    const bytes = output.subarray(end + 1, end + 1 + size);
    if (bytes.length !== size) return undefined;
    yield { id, kind, bytes };
    at = digits === undefined ? end + 1 : end + 1 + size + 1;
  }
  return undefined;
}

/**
 * The bytes of the objects that `git cat-file --batch` was asked for.
 * @param ids in the order of the question
 * @throws Error for an object that is missing, truncated or of another kind: git ends well nevertheless
 */
export function objectsIn(output: Buffer, kind: 'blob' | 'commit', ids: readonly string[]): readonly Buffer[] {
  const objects = readBatch(output);
  return ids.map((id) => {
    const { value: found } = objects.next();
    if (found?.id !== id || found.kind !== kind) throw new Error(`git has no ${kind} ${id}`);
    return found.bytes;
  });
}
