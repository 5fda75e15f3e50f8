import { statSync } from 'node:fs';
import { fileDigest, profileFile, quarantineFile, sumsFile } from '@sluice/bundle';
import { reasonOf } from '@sluice/cli';
import { compareText, differing, Layered, type Problem } from '@sluice/netfilter';
import { declaresSame, readReleaseServices, type ReleaseServices } from '../../load/release-services.ts';
import type { LiveRender, LiveRendered } from '../../render/incremental/live-render.ts';
import { type KubeObject, mapOf, textOf } from '../../render/model/kube.ts';
import { hasRules } from '../../render/normalise/numbers.ts';
import { type Quarantined, quarantineText } from '../../render/quarantine/quarantine.ts';
import type { LastText } from '../../render/quarantine/with-quarantine.ts';
import { readService } from '../../render/read/service.ts';

/** What becomes of a Service of the release that the cluster does not have: its last endpoints, or none. */
export type Withdrawn = 'keep' | 'drop';

/** How the Services of a cluster differ from those of the release, each list sorted: `shop/web`. */
export interface ReleaseDifferences {
  /** `release 42` */
  readonly name: string;
  /** In the cluster alone: they are not served. */
  readonly unknown: readonly string[];
  /** In the release alone. */
  readonly withdrawn: readonly string[];
  /** With other addresses, ports or policies in the cluster: those of the release are served. */
  readonly differing: readonly string[];
}

interface ReleaseEndpointsParts {
  /** The release directory. */
  readonly dir: string;
  readonly node: string;
  readonly withdrawn: Withdrawn;
  readonly live: Pick<LiveRender, 'render'>;
}

/** How many Services that the release lacks `quarantine.yaml` names: who may create Services decides how many there are. */
const leftOutMax = 1_000;

/**
 * Renders the Services of a release with the endpoints of a cluster: which Services there are, and everything about them but endpoints, is
 * what was reviewed. The release is not verified: `sluiced` takes nothing but endpoints of what this makes.
 */
export class ReleaseEndpoints {
  readonly #parts: ReleaseEndpointsParts;
  #stamp: string | undefined;
  #release: ReleaseServices | Problem | undefined;
  /** The objects of the cluster, and those that were made of them, with the Services of the release. */
  #last: { readonly cluster: ReadonlyMap<string, KubeObject>; readonly made: Layered<KubeObject> } | undefined;
  readonly #states = new Map<string, 'unknown' | 'withdrawn' | 'differing'>();
  /** The last `quarantine.yaml`, by what it lists. */
  #leftOut: { readonly of: string; readonly text: string } | undefined;

  constructor(parts: ReleaseEndpointsParts) {
    this.#parts = parts;
  }

  /**
   * Reads the release where the directory has another one, or could not be read.
   * @returns whether there is something else to render
   */
  refresh(): boolean {
    const { dir, node } = this.#parts;
    const stamp = stampOf(`${dir}/${sumsFile}`);
    if (stamp === this.#stamp && this.#release !== undefined && !('code' in this.#release)) return false;
    const before = this.#release;
    const found = servicesOf(dir, node);
    this.#stamp = stamp;
    if ('code' in found) {
      // A release that is being replaced: the last one is rendered meanwhile.
      if (before === undefined || 'code' in before) this.#release = found;
      else this.#stamp = undefined;
      return before === undefined;
    }
    this.#release = found;
    this.#last = undefined;
    return true;
  }

  /**
   * The objects to render.
   * @param cluster all of it, by path; shares its entries with the map of the last call
   * @returns those of the cluster without its Services and the endpoints of Services that the release lacks; or why there are none
   */
  objects(cluster: ReadonlyMap<string, KubeObject>): ReadonlyMap<string, KubeObject> | Problem {
    const release = this.#release;
    if (release === undefined || 'code' in release) return release ?? unread(this.#parts.dir, 'not yet');
    const { services } = release;
    const last = this.#last;
    const changed = last ? differing(last.cluster, cluster) : [...cluster.keys()];
    const made = last?.made ?? Layered.of(new Map([...services].map(([key, service]) => [servicePath(key), service])));
    const taken = changed
      .filter((path) => !path.startsWith(servicePath('')))
      .map((path) => [path, ofRelease(cluster.get(path), services)] as const);
    if (!last) this.#states.clear();
    for (const key of last ? changed.flatMap(keyOfPath) : new Set([...services.keys(), ...changed.flatMap(keyOfPath)]))
      this.#judge(key, cluster.get(servicePath(key)), services.get(key));
    this.#last = { cluster, made: made.with(taken) };
    return this.#last.made;
  }

  #judge(key: string, there: KubeObject | undefined, reviewed: KubeObject | undefined): void {
    const declared = there && declarationOf(there);
    this.#states.delete(key);
    if (declared === undefined) {
      if (reviewed) this.#states.set(key, 'withdrawn');
    } else if (!reviewed) this.#states.set(key, 'unknown');
    else if (declared !== declarationOf(reviewed)) this.#states.set(key, 'differing');
  }

  /** Whether the release, once it was read, does not have this Service, such as `shop/web`. */
  lacks(service: string): boolean {
    const release = this.#release;
    return release !== undefined && !('code' in release) && !release.services.has(service);
  }

  /** How the cluster of the last `objects` differs from the release; undefined before that. */
  get differences(): ReleaseDifferences | undefined {
    const release = this.#release;
    if (release === undefined || 'code' in release || !this.#last) return undefined;
    const those = (state: string): readonly string[] =>
      [...this.#states].flatMap(([key, its]) => (its === state ? [key] : [])).toSorted();
    return {
      name: release.name,
      unknown: those('unknown'),
      withdrawn: those('withdrawn'),
      differing: those('differing'),
    };
  }

  /** As `LiveRender.render`. @param objects of `objects` */
  render(objects: ReadonlyMap<string, KubeObject>, lastText: LastText): LiveRendered {
    const rendered = this.#parts.live.render(objects, lastText);
    const release = this.#release;
    if (rendered.errors.length > 0 || release === undefined || 'code' in release) return rendered;
    const profile = rendered.files.get(profileFile(release.profile));
    if (profile === undefined || fileDigest(profile) !== release.profileDigest)
      return { ...rendered, errors: [otherProfile(release)] };
    const more = [...this.#kept(release, lastText), ...this.#quarantine(rendered.quarantine)];
    return { ...rendered, files: Layered.of(rendered.files).with(more) };
  }

  /** `quarantine.yaml` with the Services that the release lacks, for `sluiced status`. */
  #quarantine(quarantine: readonly Quarantined[]): readonly (readonly [string, string])[] {
    const unknown = [...this.#states].flatMap(([key, state]) => (state === 'unknown' ? [`Service ${key}`] : []));
    if (unknown.length === 0) return [];
    const named = unknown.toSorted(compareText).slice(0, leftOutMax);
    const of = JSON.stringify([named, quarantine]);
    if (this.#leftOut?.of !== of) {
      const missing = named.map((object) => ({ object, rules: 'none' as const, reasons: [notReleased(object)] }));
      const items = [...quarantine, ...missing].toSorted((a, b) => compareText(a.object, b.object));
      this.#leftOut = { of, text: quarantineText(items) };
    }
    return [[quarantineFile, this.#leftOut.text]];
  }

  /** The files of Services that the cluster does not have. */
  #kept({ files }: ReleaseServices, lastText: LastText): readonly (readonly [string, string])[] {
    if (this.#parts.withdrawn === 'drop') return [];
    return [...this.#states].flatMap(([key, state]) => {
      const texts = state === 'withdrawn' ? [...(files.get(key) ?? [])] : [];
      return texts.map(([path, reviewed]) => {
        const last = lastText(path);
        return [path, last !== undefined && declaresSame(last, reviewed) ? last : reviewed] as const;
      });
    });
  }
}

const servicePath = (key: string): string => `cluster/services/${key}`;

/** `shop/web` of the path of a Service. */
const keyOfPath = (path: string): readonly string[] =>
  path.startsWith(servicePath('')) ? [path.slice(servicePath('').length)] : [];

/** The object, unless it has endpoints of a Service that the release lacks. */
function ofRelease(object: KubeObject | undefined, services: ReadonlyMap<string, KubeObject>): KubeObject | undefined {
  if (object?.kind !== 'EndpointSlice' && object?.kind !== 'Endpoints') return object;
  const metadata = mapOf(object.value['metadata']);
  const of =
    object.kind === 'Endpoints'
      ? textOf(metadata['name'])
      : textOf(mapOf(metadata['labels'])['kubernetes.io/service-name']);
  return services.has(`${textOf(metadata['namespace'])}/${of}`) ? object : undefined;
}

/** What rules depend on besides endpoints, in comparable form; undefined: no Service with rules. */
function declarationOf(object: KubeObject): string | undefined {
  const read = readService(object, []);
  if (!read || !hasRules(read)) return undefined;
  const ports = read.ports.map(({ name, port, protocol, nodePort }) => [name, port, protocol, nodePort].join(' '));
  const { type, clusterIPs, externalIPs, sourceRanges, ingress, ...rest } = read;
  const lists = [clusterIPs, ports, externalIPs, sourceRanges, ingress.map(({ address }) => address)];
  const { internalTrafficPolicy, externalTrafficPolicy, affinitySeconds, healthCheckNodePort } = rest;
  return JSON.stringify([
    [type, internalTrafficPolicy, externalTrafficPolicy, affinitySeconds, healthCheckNodePort],
    lists.map((list) => list.toSorted()),
  ]);
}

/** What tells another file, or another content of it; undefined: it is missing. */
function stampOf(path: string): string | undefined {
  const stats = statSync(path, { bigint: true, throwIfNoEntry: false });
  return stats && [stats.dev, stats.ino, stats.size, stats.mtimeNs, stats.ctimeNs].join(' ');
}

function servicesOf(dir: string, node: string): ReleaseServices | Problem {
  try {
    return readReleaseServices(dir, node);
  } catch (error) {
    return unread(dir, reasonOf(error));
  }
}

const unread = (dir: string, why: string): Problem => ({
  code: 'RELEASE_INVALID',
  level: 'error',
  message: `Cannot read the release in ${dir}: ${why}`,
  hint: 'Check its permissions; it is read again each second',
});

const notReleased = (object: string): Quarantined['reasons'][number] => ({
  code: 'RELEASE_WITHOUT_SERVICE',
  object,
  message: 'the release does not have it',
});

const otherProfile = ({ name, profile }: ReleaseServices): Problem => ({
  code: 'CONFIG_INVALID',
  level: 'error',
  message: `Cannot render endpoints for ${name}: the config makes another profile of this node than its profile ${profile}`,
  hint: 'Pass --config with the sluice.yaml that the release was rendered with; kube-proxy of this cluster may set more',
});
