/** What the loop of `sluice watch` does next. */
export type Step =
  /** Prepares the directory that another process may have written. */
  | { readonly do: 'take over' }
  /** Renders and writes. */
  | { readonly do: 'render' }
  | { readonly do: 'commit' }
  /** Takes the result of a push. */
  | { readonly do: 'conclude push' }
  /** @property ms the maximum; undefined: until an event */
  | { readonly do: 'wait'; readonly ms: number | undefined }
  | { readonly do: 'end' };

/** All that a decision depends on. Times are monotonic, in milliseconds. */
export interface Situation {
  readonly nowMs: number;
  /** `taking over`: this process is to write, and has not yet prepared the directory. */
  readonly role: 'standby' | 'taking over' | 'writing';
  /** `after commit`: with changes that are written and not committed. */
  readonly ending: 'no' | 'now' | 'after commit';
  /** When to render; undefined without a change. */
  readonly renderMs: number | undefined;
  /** When to commit; undefined without a change. */
  readonly commitMs: number | undefined;
  /** A push runs beside the loop: a slow remote must not delay a render. */
  readonly push: 'none' | 'running' | 'ended';
}

/**
 * Decides what to do next. Only one step uses the directory at a time: files do not change while Git reads them. Nothing is committed
 * during a push: what is written meanwhile is the next commit.
 */
export function nextStep({ nowMs, role, ending, renderMs, commitMs, push }: Situation): Step {
  if (push === 'ended') return { do: 'conclude push' };
  const isIdle = push === 'none';
  if (ending !== 'no') {
    if (!isIdle) return { do: 'wait', ms: undefined };
    return ending === 'after commit' ? { do: 'commit' } : { do: 'end' };
  }
  if (role === 'taking over' && isIdle) return { do: 'take over' };
  if (role !== 'writing') return { do: 'wait', ms: undefined };
  if (renderMs !== undefined && renderMs <= nowMs) return { do: 'render' };
  const commitable = isIdle ? commitMs : undefined;
  if (commitable !== undefined && commitable <= nowMs) return { do: 'commit' };
  const next = Math.min(renderMs ?? Number.POSITIVE_INFINITY, commitable ?? Number.POSITIVE_INFINITY);
  return { do: 'wait', ms: Number.isFinite(next) ? next - nowMs : undefined };
}
