import type { Problem } from '@sluice/netfilter';
import type { JsonObject, KubeKind, KubeObject, Path } from '../model/kube.ts';
import { report, mappingIn, pathText, type FieldSpot, type Subject, spotOf, textIn } from './fields.ts';
import { hasHiddenCharacters, isDnsLabel, isDnsSubdomain, isLabelValue, isPortName, quote } from './text.ts';

/** The forms of Kubernetes names, each with its test, its name and its description. */
const forms = {
  label: [isDnsLabel, 'DNS label', 'at most 63 of a-z, 0-9 and "-", not "-" at the ends'],
  subdomain: [
    isDnsSubdomain,
    'DNS subdomain',
    'DNS labels of a-z, 0-9 and "-" with dots between, at most 253 characters',
  ],
  labelValue: [
    isLabelValue,
    'label value',
    'at most 63 of A-Z, a-z, 0-9, "-", "_" and ".", only letters and digits at the ends',
  ],
  portName: [isPortName, 'container port name', 'at most 15 of a-z, 0-9 and "-", with at least one letter'],
} as const;
export type NameForm = keyof typeof forms;

/** Whether `text` has the form; reports a problem if it does not. */
export function checkName(spot: FieldSpot, tail: Path, text: string, form: NameForm): boolean {
  const [test, name, words] = forms[form];
  if (test(text)) return true;
  const hidden = hasHiddenCharacters(text);
  report(spot, tail, {
    code: hidden ? 'CONTROL_CHARACTER' : 'NAME_INVALID',
    message: `Cannot read ${pathText(spot, tail)}: ${quote(text)} ${hidden ? 'has control characters' : `is not a valid ${name}`}`,
    hint: `Use ${words}`,
  });
  return false;
}

/** An optional name; undefined when it is absent or (with a problem) malformed. */
export function nameIn(spot: FieldSpot, key: string, form: NameForm): string | undefined {
  const text = textIn(spot, key);
  return text !== undefined && checkName(spot, [key], text, form) ? text : undefined;
}

/** The metadata that every object has. */
export interface Identity {
  readonly top: FieldSpot;
  /** `''` for cluster-scoped objects. */
  readonly namespace: string;
  readonly name: string;
  /** `shop/web`, or the name of a cluster-scoped object. */
  readonly key: string;
  readonly labels: FieldSpot | undefined;
  readonly annotations: FieldSpot | undefined;
}

/** The version of EndpointSlices in clusters of 1.17 to 1.24, and in manifests from there. */
export const betaSlices = 'discovery.k8s.io/v1beta1';

/** The supported apiVersions of each kind; the first is the current one. */
export const apiVersions: Readonly<Record<KubeKind, readonly [string, ...string[]]>> = {
  Service: ['v1'],
  Endpoints: ['v1'],
  EndpointSlice: ['discovery.k8s.io/v1', betaSlices],
  Node: ['v1'],
  ServiceCIDR: ['networking.k8s.io/v1', 'networking.k8s.io/v1beta1'],
};

const clusterScoped: ReadonlySet<KubeKind> = new Set(['Node', 'ServiceCIDR']);

/**
 * Reads name, namespace and labels. The default namespace is `default`, as for kubectl.
 * @param form of the name: labels for Services, subdomains for other kinds
 * @returns undefined when the object has no usable name; `problems` receives the reason
 */
export function identify(object: KubeObject, problems: Problem[], form: NameForm): Identity | undefined {
  const isClusterScoped = clusterScoped.has(object.kind);
  const subject: Subject = { title: titleOf(object), object, problems, broken: false };
  const top = spotOf(subject);
  const [wanted, ...older] = apiVersions[object.kind];
  if (object.apiVersion !== wanted && !older.includes(object.apiVersion)) {
    report(top, ['apiVersion'], {
      code: 'API_VERSION_UNKNOWN',
      message: `Cannot read ${object.kind} of apiVersion ${quote(object.apiVersion)}`,
      hint: `Write it as ${wanted}; \`kubectl convert\` can do that`,
    });
    return undefined;
  }
  const metadata = mappingIn(top, 'metadata');
  const name = metadata && textIn(metadata, 'name');
  if (!metadata || name === undefined || name === '') {
    if (!subject.broken) report(top, ['metadata', 'name'], missingName);
    return undefined;
  }
  checkName(metadata, ['name'], name, form);
  const written = isClusterScoped ? '' : textIn(metadata, 'namespace') || 'default';
  if (!isClusterScoped) checkName(metadata, ['namespace'], written, 'label');
  const labels = mappingIn(metadata, 'labels');
  const annotations = mappingIn(metadata, 'annotations');
  return { top, namespace: written, name, key: isClusterScoped ? name : `${written}/${name}`, labels, annotations };
}

const missingName = {
  code: 'FIELD_MISSING',
  message: 'Cannot read an object without metadata.name',
  hint: 'Set metadata.name; generateName only works at the API server',
} as const;

/** `Service shop/web`, also for an object that is not validated. */
export function titleOf(object: Pick<KubeObject, 'kind' | 'value'>): string {
  const safe = (text: string): string => (isDnsSubdomain(text) ? text : quote(text));
  const name = safe(metadataText(object, 'name') || '?');
  if (clusterScoped.has(object.kind)) return `${object.kind} ${name}`;
  return `${object.kind} ${safe(metadataText(object, 'namespace') || 'default')}/${name}`;
}

/** `shop/web` without validation, for an invalid object. */
export function roughKey(object: KubeObject): string {
  return `${metadataText(object, 'namespace') || 'default'}/${metadataText(object, 'name')}`;
}

function metadataText(object: Pick<KubeObject, 'value'>, key: 'namespace' | 'name'): string {
  const metadata = object.value['metadata'];
  if (typeof metadata !== 'object' || metadata === null || Array.isArray(metadata)) return '';
  const value = (metadata as JsonObject)[key];
  return typeof value === 'string' ? value : '';
}

/** With any value it assigns a Service to another proxy; before kube-proxy 1.36 also a slice. */
export const proxyNameLabel = 'service.kubernetes.io/service-proxy-name';
/** With any value it excludes a slice from rules; before kube-proxy 1.36 also a Service. */
export const headlessLabel = 'service.kubernetes.io/headless';
/** Labels by which kube-proxy ignores objects (`labelSelector…` in `ProxyServer.Run`, `cmd/kube-proxy/app/server.go`). */
export type ForeignLabel = typeof proxyNameLabel | typeof headlessLabel;

/** The label for which a Service is ignored: first the one that every version of kube-proxy knows. */
export const foreignLabelOfService = (labels: FieldSpot | undefined): ForeignLabel | undefined =>
  firstLabel(labels, [proxyNameLabel, headlessLabel]);

/** The label for which a slice is ignored, in the same order. */
export const foreignLabelOfSlice = (labels: FieldSpot | undefined): ForeignLabel | undefined =>
  firstLabel(labels, [headlessLabel, proxyNameLabel]);

function firstLabel(labels: FieldSpot | undefined, keys: readonly ForeignLabel[]): ForeignLabel | undefined {
  return labels && keys.find((key) => Object.hasOwn(labels.value, key));
}
