import { packTexts, type TextSource } from '@sluice/bundle';
import { Layered } from '@sluice/netfilter';
import type { JsonObject, KubeObject, Origin } from '../../render/model/kube.ts';
import type { Access } from '../access.ts';
import { ClusterFailure } from '../failure.ts';
import { mapAt, textAt } from '../json.ts';
import { keep } from '../keep.ts';
import { kindsOfNode, type ListedKind, type ListedKinds, listedKinds } from '../kinds.ts';
import { list } from '../list.ts';
import { Reflector, type WatchPatience, wordsOf } from './reflector.ts';
import { sleep } from '../sleep.ts';

/** A change of an object that affects rules. */
export interface ObjectChange {
  /** The changed object: `Service shop/web`, `Node node-a`, or an EndpointSlice without a Service. */
  readonly about: string;
  /** It is an EndpointSlice or Endpoints. */
  readonly isEndpoints: boolean;
  /** The server told that this Service was deleted, where a list may merely lack it. */
  readonly isDeleted?: boolean;
  /** When the endpoints changed, from the endpoint controller; milliseconds since 1970. */
  readonly triggeredMs?: number;
}

interface FeedListener {
  readonly changed: (change: ObjectChange) => void;
  readonly current: (kind: ListedKind) => void;
  readonly away: (kind: ListedKind, why: string) => void;
  /** An optional kind is not watched. */
  readonly notWatched: (kind: ListedKind, why: string) => void;
}

/** The annotation of endpoint controllers from which kube-proxy measures its latency. */
const triggerKey = 'endpoints.kubernetes.io/last-change-trigger-time';
const serviceLabel = 'kubernetes.io/service-name';

/** Changes that wait to be joined with the other objects, at most. */
const changedMax = 512;

/** Watches all objects of a cluster that affect rules. */
export class Feed {
  /** By path in the API. */
  #objects = Layered.of<PackedObject>(new Map());
  /** What has changed since; undefined: removed. */
  readonly #changed = new Map<string, PackedObject | undefined>();
  readonly #listener: FeedListener;
  readonly #access: Access;
  readonly #patience: WatchPatience;
  /** UIDs by title, for Events. */
  readonly #uids = new Map<string, string>();
  readonly #synced = new Set<string>();
  readonly #listed: ListedKinds;
  readonly #node: string | undefined;
  #kinds: readonly ListedKind[] = [];

  /** @param node watches what this node needs, with the selectors of kube-proxy; left out: all of the cluster */
  constructor(access: Access, listener: FeedListener, patience: WatchPatience, node?: string) {
    this.#node = node;
    this.#listed = node === undefined ? listedKinds : kindsOfNode(node);
    this.#access = access;
    this.#listener = listener;
    this.#patience = patience;
  }

  /** True once every kind was listed: before that, missing objects may only be unknown. */
  get isComplete(): boolean {
    return this.#kinds.length > 0 && this.#kinds.every(({ kind }) => this.#synced.has(kind));
  }

  /** False where the cluster has no Node of the name that was given. */
  get hasNode(): boolean {
    return this.#node === undefined || this.#at(pathOf(listedKinds.Node, this.#node)) !== undefined;
  }

  /** The current objects by their paths in the API; shares its entries with the map before, so that `differing` costs what differs. */
  objects(): ReadonlyMap<string, KubeObject> {
    this.#objects = this.#objects.with(this.#changed);
    this.#changed.clear();
    return this.#objects;
  }

  /** Compresses the texts of all objects: to be called when they were read. */
  pack(): void {
    PackedObject.pack(this.#objects.values());
  }

  /** The UID of an object, such as `Service shop/web`. */
  uidOf(title: string): string | undefined {
    return this.#uids.get(title);
  }

  /** Watches the cluster until the signal. */
  async run(signal: AbortSignal): Promise<void> {
    const listed = this.#listed;
    const services = await this.#find(listed.Service, signal);
    const slices = await this.#find(listed.EndpointSlice, signal);
    const ranges = await this.#find(listed.ServiceCIDR, signal);
    if (signal.aborted) return;
    // Without EndpointSlices, the cluster has Endpoints.
    const endpoints = typeof slices === 'string' ? listed.Endpoints : slices;
    if (typeof ranges === 'string') this.#listener.notWatched(listed.ServiceCIDR, ranges);
    const optional = typeof ranges === 'string' ? [] : [ranges];
    this.#kinds = [
      typeof services === 'string' ? everyAddress(listed.Service) : services,
      endpoints,
      listed.Node,
      ...optional,
    ];
    await Promise.all(
      this.#kinds.map((kind) => new Reflector(this.#access, kind, this.#sink, this.#patience).run(signal)),
    );
  }

  /**
   * Waits until the server answers whether it has a kind.
   * @returns the kind, or why it cannot be watched: it is missing, or it is optional and not readable
   */
  async #find(kind: ListedKind, signal: AbortSignal): Promise<ListedKind | string> {
    while (!signal.aborted) {
      try {
        const patience = { ...this.#patience, signal };
        const listed = await list(this.#access, kind, { pageObjects: 1, pagesMax: 1, patience });
        this.#listener.current(kind);
        return listed === undefined ? `${this.#access.server} does not have ${kind.resource}` : kind;
      } catch (error) {
        if (!(error instanceof ClusterFailure)) throw error;
        if (kind.kind === 'ServiceCIDR' && error.problem.code === 'CLUSTER_FORBIDDEN') {
          this.#listener.current(kind);
          return wordsOf(error);
        }
        if (kind.kind === 'Service' && error.status === 400) return wordsOf(error);
        if (!signal.aborted) this.#listener.away(kind, wordsOf(error));
        await sleep(this.#patience.backoffMs, signal);
      }
    }
    return kind;
  }

  readonly #sink = {
    read: readObject,
    replaced: (kind: ListedKind, objects: readonly FeedObject[]): void => {
      const prefix = pathOf(kind, '');
      const gone = new Set([...this.objects().keys()].filter((path) => path.startsWith(prefix)));
      for (const object of objects) {
        gone.delete(pathOf(kind, object.key));
        this.#put(kind, object);
      }
      for (const path of gone) this.#remove(kind, path.slice(prefix.length));
      this.#synced.add(kind.kind);
      this.#listener.current(kind);
    },
    changed: (kind: ListedKind, object: JsonObject): void => this.#put(kind, readObject(kind, object)),
    deleted: (kind: ListedKind, object: JsonObject): void => {
      // The node of `--node` serves on until it is gone: like kube-proxy it only asks load balancers to send elsewhere.
      if (kind.kind === 'Node' && this.#node !== undefined) this.#put(kind, readObject(kind, ended(object)));
      else this.#remove(kind, keyOf(object), kind.kind === 'Service');
    },
    current: (kind: ListedKind): void => this.#listener.current(kind),
    away: (kind: ListedKind, why: string): void => this.#listener.away(kind, why),
  };

  /** @param object undefined: removed */
  #set(path: string, object: PackedObject | undefined): void {
    this.#changed.set(path, object);
    // Where none are asked for, as on a replica without the Lease, names that come and go would stay.
    if (this.#changed.size >= changedMax) this.objects();
  }

  #at(path: string): PackedObject | undefined {
    return this.#changed.has(path) ? this.#changed.get(path) : this.#objects.get(path);
  }

  /** Ignores changes of other fields, such as heartbeats. */
  #put(kind: ListedKind, { key, uid, triggeredMs, object }: FeedObject): void {
    if (this.#at(object.path)?.text === object.text) return;
    if (kind.kind === 'Service' || kind.kind === 'Node') this.#uids.set(`${kind.kind} ${key}`, uid);
    this.#set(object.path, object);
    this.#listener.changed({ ...changeOf(object), ...(Number.isNaN(triggeredMs) ? {} : { triggeredMs }) });
  }

  #remove(kind: ListedKind, key: string, isDeleted = false): void {
    this.#uids.delete(`${kind.kind} ${key}`);
    const path = pathOf(kind, key);
    const before = this.#at(path);
    if (before === undefined) return;
    this.#set(path, undefined);
    this.#listener.changed({ ...changeOf(before), ...(isDeleted ? { isDeleted } : {}) });
  }
}

/** API servers before 1.31 select Services by labels alone. */
function everyAddress({ only: { fieldSelector: _byAddress, ...only } = {}, ...kind }: ListedKind): ListedKind {
  return { ...kind, only };
}

/** A Node that was deleted at once, as one that waits for finalizers is. */
const ended = (object: JsonObject): JsonObject => ({
  ...object,
  metadata: { deletionTimestamp: 'deleted', ...mapAt(object, 'metadata') },
});

const pathOf = ({ resource }: ListedKind, key: string): string => `cluster/${resource}/${key}`;

function keyOf(object: JsonObject): string {
  const metadata = mapAt(object, 'metadata');
  const namespace = textAt(metadata, 'namespace');
  return namespace === '' ? textAt(metadata, 'name') : `${namespace}/${textAt(metadata, 'name')}`;
}

function changeOf(object: KubeObject): ObjectChange {
  return { about: aboutOf(object), isEndpoints: object.kind === 'EndpointSlice' || object.kind === 'Endpoints' };
}

/** The Service of an EndpointSlice with one, otherwise the object itself. */
function aboutOf({ kind, value }: KubeObject): string {
  const metadata = mapAt(value, 'metadata');
  const service = textAt(mapAt(metadata, 'labels'), serviceLabel);
  if (kind === 'EndpointSlice' && service !== '') return `Service ${textAt(metadata, 'namespace')}/${service}`;
  return `${kind === 'Endpoints' ? 'Service' : kind} ${keyOf(value)}`;
}

/** What a list or an event says of an object. */
interface FeedObject {
  /** `shop/web` */
  readonly key: string;
  readonly uid: string;
  /** @see ObjectChange.triggeredMs; NaN: the object does not tell */
  readonly triggeredMs: number;
  readonly object: PackedObject;
}

function readObject(kind: ListedKind, raw: JsonObject): FeedObject {
  const key = keyOf(raw);
  const metadata = mapAt(raw, 'metadata');
  return {
    key,
    uid: textAt(metadata, 'uid'),
    triggeredMs: Date.parse(textAt(mapAt(metadata, 'annotations'), triggerKey)),
    object: new PackedObject(kind, pathOf(kind, key), keep(kind, raw)),
  };
}

/**
 * An object of a running cluster, kept as text. It is read when it is rendered, and hardly ever again until it changes: 20,000 objects of
 * 10,000 Services with 5 endpoints take 2 MB once they are compressed, 12 MB before, and 45 MB as values.
 */
class PackedObject implements KubeObject {
  readonly kind: ListedKind['kind'];
  readonly apiVersion: string;
  #text: string | TextSource;
  /** In the API: it has no line. */
  readonly path: string;

  constructor({ kind, apiVersion }: ListedKind, path: string, value: JsonObject) {
    this.kind = kind;
    this.apiVersion = apiVersion;
    this.#text = JSON.stringify(value);
    this.path = path;
  }

  /** JSON: equal objects have equal texts, as a server prints fields in one order. */
  get text(): string {
    return typeof this.#text === 'string' ? this.#text : this.#text.text;
  }

  /** Compresses the texts that are not compressed yet. */
  static pack(objects: Iterable<PackedObject>): void {
    const plain = [...objects].filter((object) => typeof object.#text === 'string');
    const packed = packTexts(plain.map(({ text }) => text));
    for (const [at, object] of plain.entries()) object.#text = packed[at] ?? object.#text;
  }

  /** Parsed again where another object was read meanwhile. */
  get value(): JsonObject {
    if (lastRead?.object !== this) lastRead = { object: this, value: JSON.parse(this.text) as JsonObject };
    return lastRead.value;
  }

  get origin(): Origin {
    return { place: () => ({ file: this.path, line: 1, column: 1 }) };
  }
}

/** The reader of an object asks for its value about ten times. */
let lastRead: { readonly object: PackedObject; readonly value: JsonObject } | undefined;
