import { isMap, type JsonObject, parseJson } from '../../render/model/kube.ts';
import type { Access } from '../access.ts';
import { ClusterFailure } from '../failure.ts';
import { mapAt, textAt } from '../json.ts';
import { refused } from '../refusal.ts';
import { type ApiResponse, type Patience, sendOnly } from '../request.ts';
import { sleep } from '../sleep.ts';

// The client library has no leader election: client-node.test.ts, "watch/lease.ts".

/** The Lease and the identity of this process. */
interface LeaseName {
  readonly namespace: string;
  readonly name: string;
  readonly holder: string;
}

interface LeaseBounds {
  readonly durationMs: number;
  readonly renewWithinMs: number;
  readonly retryMs: number;
}

interface LeaseListener {
  readonly gained: () => void;
  readonly lost: (why: string) => void;
  /** A request for the Lease failed. */
  readonly failed: (why: string) => void;
  /** The server answered. @param other who holds the Lease; undefined: this process */
  readonly answered: (other: string | undefined) => void;
}

/** The annotation for a note, which the next holder reads. */
const noteKey = 'sluice.dev/last-serial';

/** The rule of a Role that allows leader election. */
export const leaseRule =
  '{apiGroups: ["coordination.k8s.io"], resources: ["leases"], verbs: ["get", "create", "update"]}';

/**
 * Leader election with a Lease (coordination.k8s.io). Like client-go it never compares clocks of different machines: a Lease is free when it
 * has not changed for its duration, on the local clock.
 */
export class Elector {
  readonly #access: Access;
  readonly #name: LeaseName;
  readonly #listener: LeaseListener;
  readonly #bounds: LeaseBounds;
  readonly #patience: Patience;
  #isHeld = false;
  #renewedMs = 0;
  /** The last other holder. */
  #other = 'another process';
  /** The last observed version of the Lease, and since when. */
  #seen: { readonly version: string; readonly sinceMs: number } | undefined;

  constructor(access: Access, name: LeaseName, listener: LeaseListener, bounds: LeaseBounds, patience: Patience) {
    this.#access = access;
    this.#name = name;
    this.#listener = listener;
    this.#bounds = bounds;
    this.#patience = { ...patience, requestTimeoutMs: Math.min(patience.requestTimeoutMs, bounds.renewWithinMs / 2) };
  }

  /** Tries to hold the Lease until the signal, then releases it. */
  async run(signal: AbortSignal): Promise<void> {
    // A hanging request must not delay the loss of leadership.
    const watchdog = setInterval(() => this.#expire(), this.#bounds.retryMs / 2);
    while (!signal.aborted) {
      await this.#guarded(() => this.#try());
      await sleep(this.#bounds.retryMs, signal);
    }
    clearInterval(watchdog);
    if (!this.#isHeld) return;
    this.#lose('it was released');
    await this.#guarded(() => this.#giveBack());
  }

  /**
   * Reads the note of the Lease, and may replace it.
   * @param replace the note, empty without one → the next one
   * @returns the note now; undefined where this process does not hold the Lease, or it changed meanwhile
   * @throws ClusterFailure
   */
  async note(replace: (note: string) => string): Promise<string | undefined> {
    const lease = parseJson((await this.#send('GET', this.#path)).body);
    const isHolder = isMap(lease) && textAt(mapAt(lease, 'spec'), 'holderIdentity') === this.#name.holder;
    if (!this.#isHeld || !isHolder) return undefined;
    const before = textAt(annotationsOf(lease), noteKey);
    const next = replace(before);
    if (next === before) return next;
    const put = await this.#send('PUT', this.#path, this.#body(this.#name.holder, lease, next));
    if (put.status === 409) return undefined;
    if (put.status !== 200) throw refused(`write ${this.#words}`, put.status, leaseRule);
    return next;
  }

  async #guarded(act: () => Promise<void>): Promise<void> {
    try {
      await act();
      this.#listener.answered(this.#isHeld ? undefined : this.#other);
    } catch (error) {
      if (!(error instanceof ClusterFailure)) throw error;
      this.#listener.failed(error.message);
    }
    this.#expire();
  }

  #expire(): void {
    if (this.#isHeld && performance.now() - this.#renewedMs > this.#bounds.renewWithinMs)
      this.#lose(`it could not be renewed for ${this.#bounds.renewWithinMs / 1000} s`);
  }

  async #try(): Promise<void> {
    const asked = performance.now();
    const got = await this.#send('GET', this.#path);
    if (got.status === 404) {
      const body = this.#body(this.#name.holder, {});
      const created = await this.#send('POST', this.#path.replace(/\/[^/]*$/, ''), body);
      this.#written(created, 201, asked);
      return;
    }
    const lease = parseJson(got.body);
    if (got.status !== 200 || !isMap(lease)) throw refused(`read ${this.#words}`, got.status, leaseRule);
    if (!this.#mayTake(lease)) {
      this.#other = textAt(mapAt(lease, 'spec'), 'holderIdentity');
      if (this.#isHeld) this.#lose(`${this.#other} holds it`);
      return;
    }
    const put = await this.#send('PUT', this.#path, this.#body(this.#name.holder, lease));
    this.#written(put, 200, asked);
  }

  /** A conflict means that another process was faster; any other refusal is a failure to report. */
  #written({ status }: ApiResponse, wanted: number, asked: number): void {
    if (status === wanted) this.#hold(asked);
    else if (status !== 409) throw refused(`write ${this.#words}`, status, leaseRule);
  }

  /** Whether the Lease is held by this process, free, or expired. */
  #mayTake(lease: JsonObject): boolean {
    const version = textAt(mapAt(lease, 'metadata'), 'resourceVersion');
    if (this.#seen?.version !== version) this.#seen = { version, sinceMs: performance.now() };
    const holder = textAt(mapAt(lease, 'spec'), 'holderIdentity');
    if (holder === '' || holder === this.#name.holder) return true;
    return performance.now() - this.#seen.sinceMs > this.#bounds.durationMs;
  }

  /** @param sinceMs when the renewal was sent: other processes count from then */
  #hold(sinceMs: number): void {
    this.#renewedMs = sinceMs;
    if (this.#isHeld) return;
    this.#isHeld = true;
    this.#listener.gained();
  }

  #lose(why: string): void {
    this.#isHeld = false;
    this.#listener.lost(why);
  }

  async #giveBack(): Promise<void> {
    const lease = parseJson((await this.#send('GET', this.#path)).body);
    if (isMap(lease) && textAt(mapAt(lease, 'spec'), 'holderIdentity') === this.#name.holder)
      await this.#send('PUT', this.#path, this.#body('', lease));
  }

  async #send(method: 'GET' | 'POST' | 'PUT', path: string, body?: string): Promise<ApiResponse> {
    const asked = body === undefined ? { method } : { method, body };
    const answer = await sendOnly(this.#access, path, asked, this.#patience);
    if (answer.status === 401) this.#access.renew();
    if (answer.status === 401 || answer.status === 403) throw refused(`hold ${this.#words}`, answer.status, leaseRule);
    return answer;
  }

  get #path(): string {
    const { namespace, name } = this.#name;
    return `/apis/coordination.k8s.io/v1/namespaces/${encodeURIComponent(namespace)}/leases/${encodeURIComponent(name)}`;
  }

  get #words(): string {
    return `Lease ${this.#name.namespace}/${this.#name.name} of ${this.#access.server}`;
  }

  /** Includes the observed version, so that of two concurrent updates one is refused. */
  #body(holder: string, lease: JsonObject, note?: string): string {
    const { namespace, name } = this.#name;
    const annotations = { ...annotationsOf(lease), ...(note !== undefined && { [noteKey]: note }) };
    const before = mapAt(lease, 'spec');
    const isNew = textAt(before, 'holderIdentity') !== holder;
    const now = `${new Date().toISOString().slice(0, -1)}000Z`;
    const transitions = typeof before['leaseTransitions'] === 'number' ? before['leaseTransitions'] : 0;
    const version = textAt(mapAt(lease, 'metadata'), 'resourceVersion');
    return JSON.stringify({
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: { namespace, name, annotations, ...(version !== '' && { resourceVersion: version }) },
      spec: {
        holderIdentity: holder,
        leaseDurationSeconds: Math.ceil(this.#bounds.durationMs / 1000),
        acquireTime: isNew ? now : before['acquireTime'],
        renewTime: now,
        leaseTransitions: isNew && holder !== '' ? transitions + 1 : transitions,
      },
    });
  }
}

const annotationsOf = (lease: JsonObject): JsonObject => mapAt(mapAt(lease, 'metadata'), 'annotations');
