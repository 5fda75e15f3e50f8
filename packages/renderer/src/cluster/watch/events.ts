import { createHash } from 'node:crypto';
import type { Access } from '../access.ts';
import { ClusterFailure } from '../failure.ts';
import { refused } from '../refusal.ts';
import { type Patience, sendOnly } from '../request.ts';

/** An Event on an object. */
export interface Notice {
  /** `Service shop/web`, `Node node-a`. */
  readonly object: string;
  readonly uid?: string;
  readonly reason: 'Quarantined' | 'Released';
  readonly message: string;
}

/** The rule of a ClusterRole that allows `watch` to create Events. */
export const eventRule = '{apiGroups: [""], resources: ["events"], verbs: ["create"]}';

/** The limit of the API server. */
const messageMax = 1024;

/**
 * Creates an Event on an object, which `kubectl describe` shows.
 * @throws ClusterFailure when the server refuses it
 */
export async function sendEvent(access: Access, notice: Notice, now: Date, patience: Patience): Promise<void> {
  const [kind = '', key = ''] = notice.object.split(' ');
  const [name = '', namespace = 'default'] = key.split('/').toReversed();
  const at = now.toISOString().replace(/\.\d+Z$/, 'Z');
  const id = createHash('sha256').update(`${notice.object} ${notice.reason} ${now.getTime()} ${notice.message}`);
  const event = {
    apiVersion: 'v1',
    kind: 'Event',
    metadata: { namespace, name: `${name}.${id.digest('hex').slice(0, 16)}` },
    involvedObject: {
      apiVersion: 'v1',
      kind,
      name,
      ...(kind === 'Service' && { namespace }),
      ...(notice.uid && { uid: notice.uid }),
    },
    type: notice.reason === 'Quarantined' ? 'Warning' : 'Normal',
    reason: notice.reason,
    message: notice.message.slice(0, messageMax),
    source: { component: 'sluice' },
    firstTimestamp: at,
    lastTimestamp: at,
    count: 1,
  };
  const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/events`;
  const answer = await sendOnly(access, path, { method: 'POST', body: JSON.stringify(event) }, patience);
  if (answer.status === 401) access.renew();
  if (answer.status >= 300)
    throw refused(`create an Event on ${notice.object} at ${access.server}`, answer.status, eventRule);
}

/** Sends Events about quarantine one after the other. A failed Event is dropped, and the same failure is reported once. */
export class EventSender {
  readonly #send: (notice: Notice) => Promise<void>;
  readonly #failed: (why: string) => void;
  #queue: Promise<void> = Promise.resolve();
  #waiting = 0;
  #lastWhy = '';

  constructor(send: (notice: Notice) => Promise<void>, failed: (why: string) => void) {
    this.#send = send;
    this.#failed = failed;
  }

  add(notice: Notice): void {
    // Bounds the backlog of Events while the server refuses them.
    if (this.#waiting >= 1_000) return;
    this.#waiting += 1;
    this.#queue = this.#queue.then(async () => {
      this.#waiting -= 1;
      try {
        await this.#send(notice);
        this.#lastWhy = '';
      } catch (error) {
        if (!(error instanceof ClusterFailure)) throw error;
        const why = `${error.message}; ${error.problem.hint}`;
        if (why.replace(/on \S+ \S+ /, '') !== this.#lastWhy) this.#failed(why);
        this.#lastWhy = why.replace(/on \S+ \S+ /, '');
      }
    });
  }
}
