import { addAll } from '@sluice/netfilter';
import { isMap, type JsonObject, parseJson } from '../render/model/kube.ts';
import type { Access } from './access.ts';
import { ClusterFailure } from './failure.ts';
import { type ListKind, listPath } from './kinds.ts';
import { textAt } from './json.ts';
import { clusterLimits } from './limits.ts';
import { refusedList, unexpectedResponse, tooMany } from './refusal.ts';
import { get, type Patience } from './request.ts';

// Lists of the client library have one page, accept an answer of any kind, and drop fields that its model does not have, so a snapshot
// would lose fields of a newer API server: client-node.test.ts, "list.ts". client-node-equal.test.ts compares the lists of both.

/** All objects of a kind at one resource version. */
interface ObjectList<T> {
  readonly items: readonly T[];
  readonly resourceVersion: string;
}

export interface KindListOptions {
  readonly namespace?: string;
  readonly selector?: string;
  readonly pageObjects?: number;
  /** Default: all pages. One page is enough to learn whether the server has the kind. */
  readonly pagesMax?: number;
  readonly patience?: Patience;
  /** Called with the number of objects read so far. */
  readonly onPage?: (objects: number) => void;
}

/** Lists a kind with all fields of its objects, as `listAs`. */
export const list = (
  access: Access,
  kind: ListKind,
  options: KindListOptions = {},
): Promise<ObjectList<JsonObject> | undefined> => listAs(access, kind, (object) => object, options);

/**
 * Lists a kind page by page. After 410 Gone (the continue token expired) the list restarts: pages of two resource versions could repeat
 * or miss objects.
 * @param read what is kept of an object: the rest of a page is freed before the next one is read
 * @returns undefined when the server does not have the kind
 * @throws ClusterFailure for a refusal, an unreachable server, or a response that is not a list
 */
export async function listAs<T>(
  access: Access,
  kind: ListKind,
  read: (object: JsonObject) => T,
  options: KindListOptions = {},
): Promise<ObjectList<T> | undefined> {
  for (let restart = 0; restart <= clusterLimits.restartsMax; restart++) {
    const listed = await listOnce(access, kind, read, options);
    if (listed !== 'gone') return listed;
  }
  throw new ClusterFailure(
    'CLUSTER_UNREACHABLE',
    `Cannot list ${kind.resource} of ${access.server}: the list expired ${clusterLimits.restartsMax + 1} times while it was read (410 Gone)`,
    'Check whether the server is overloaded or its etcd is compacted too often',
  );
}

async function listOnce<T>(
  access: Access,
  kind: ListKind,
  read: (object: JsonObject) => T,
  options: KindListOptions,
): Promise<ObjectList<T> | undefined | 'gone'> {
  const items: T[] = [];
  let next = '';
  for (let pages = 1; ; pages++) {
    const answer = await get(access, pagePath(kind, options, next), options.patience);
    if (answer.status === 410) return 'gone';
    if (answer.status === 404 && next === '') return undefined;
    if (answer.status !== 200) throw refusedList(access, kind, answer.status, options.namespace);
    const page = readPage(access, kind, answer.body);
    addAll(items, page.items.map(read));
    if (items.length > clusterLimits.objectsMax) throw tooMany(access, kind);
    options.onPage?.(items.length);
    if (page.next === '' || pages === options.pagesMax) return { items, resourceVersion: page.resourceVersion };
    next = page.next;
  }
}

function pagePath(kind: ListKind, options: KindListOptions, next: string): string {
  const query = new URLSearchParams({
    limit: String(options.pageObjects ?? clusterLimits.pageObjects),
    ...kind.only,
  });
  if (options.selector !== undefined) query.set('labelSelector', options.selector);
  if (next !== '') query.set('continue', next);
  return `${listPath(kind, options.namespace)}?${query.toString()}`;
}

interface Page extends ObjectList<JsonObject> {
  readonly next: string;
}

function readPage(access: Access, kind: ListKind, body: string): Page {
  const value = parseJson(body);
  const metadata = isMap(value) ? value['metadata'] : undefined;
  const items = isMap(value) && value['kind'] === `${kind.kind}List` ? (value['items'] ?? []) : undefined;
  if (!isMap(metadata) || !Array.isArray(items) || !items.every(isMap)) {
    throw unexpectedResponse(`list ${kind.resource} of ${access.server}`, `${kind.kind}List`);
  }
  return { items, resourceVersion: textAt(metadata, 'resourceVersion'), next: textAt(metadata, 'continue') };
}
