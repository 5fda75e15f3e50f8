import { createHash } from 'node:crypto';
import type { Access } from '../access.ts';
import { ClusterFailure } from '../failure.ts';
import { refused } from '../refusal.ts';
import { type Patience, sendOnly } from '../request.ts';

/** What is said on an object. */
export interface Notice {
  /** `Service shop/web`, `Node node-a`. */
  readonly object: string;
  readonly uid?: string;
  readonly reason: 'Quarantined' | 'Released';
  readonly message: string;
}

/** The rule of a ClusterRole that lets `watch` say on an object what is wrong with it. */
export const eventRule = '{apiGroups: [""], resources: ["events"], verbs: ["create"]}';

/** The API server takes no longer one. */
const messageMax = 1024;

/**
 * Says something on an object, where `kubectl describe` shows it.
 * @throws ClusterFailure when the server does not take it
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

/** Sends what changed in quarantine, one after the other; what cannot be sent is told once and dropped. */
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
    // A server that takes none for long is not sent the history of it afterwards.
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
