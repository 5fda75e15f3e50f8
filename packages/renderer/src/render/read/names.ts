import type { Problem } from '@sluice/bundle';
import type { JsonObject, KubeKind, KubeObject, Path } from '../kube.ts';
import { complain, mappingIn, pathText, type Spot, type Subject, spotOf, textIn } from './fields.ts';
import { hasHiddenCharacters, isDnsLabel, isDnsSubdomain, isLabelValue, isPortName, quote } from './text.ts';

/** The forms of names that Kubernetes has, each with its test and its description. */
const forms = {
  label: [isDnsLabel, 'a DNS label: at most 63 of a-z, 0-9 and "-", not at the ends'],
  subdomain: [isDnsSubdomain, 'a DNS subdomain: labels of a-z, 0-9 and "-" with dots between, at most 253'],
  labelValue: [isLabelValue, 'a label\'s value: at most 63 of A-Z, a-z, 0-9, "-", "_" and ".", not at the ends'],
  portName: [isPortName, 'the name of a container port: at most 15 of a-z, 0-9 and "-", with a letter'],
} as const;
export type NameForm = keyof typeof forms;

/** Whether `text` has the form; a problem when it has not. */
export function checkName(spot: Spot, tail: Path, text: string, form: NameForm): boolean {
  const [test, words] = forms[form];
  if (test(text)) return true;
  const hidden = hasHiddenCharacters(text);
  complain(spot, tail, {
    code: hidden ? 'CONTROL_CHARACTER' : 'NAME_INVALID',
    message: `Cannot read ${pathText(spot, tail)}: ${quote(text)} ${hidden ? 'holds control characters' : 'is no such name'}`,
    hint: `Write ${words}`,
  });
  return false;
}

/** A name that may be left out; undefined too when (with a problem) it is malformed. */
export function nameIn(spot: Spot, key: string, form: NameForm): string | undefined {
  const text = textIn(spot, key);
  return text !== undefined && checkName(spot, [key], text, form) ? text : undefined;
}

/** What every object begins with. */
export interface Identity {
  readonly top: Spot;
  /** `''` for what is in none. */
  readonly namespace: string;
  readonly name: string;
  /** `shop/web`, or the name of what is in no namespace. */
  readonly key: string;
  readonly labels: Spot | undefined;
  readonly annotations: Spot | undefined;
}

/** EndpointSlices as clusters of 1.17 to 1.24 served them, and as manifests from there still say. */
export const betaSlices = 'discovery.k8s.io/v1beta1';

/** The apiVersions in which each kind is read; the first is the one to write. */
export const apiVersions: Readonly<Record<KubeKind, readonly [string, ...string[]]>> = {
  Service: ['v1'],
  Endpoints: ['v1'],
  EndpointSlice: ['discovery.k8s.io/v1', betaSlices],
  Node: ['v1'],
  ServiceCIDR: ['networking.k8s.io/v1', 'networking.k8s.io/v1beta1'],
};

/** Kinds of objects that are in no namespace. */
const clusterScoped: ReadonlySet<KubeKind> = new Set(['Node', 'ServiceCIDR']);

/**
 * Reads name, namespace and labels. The namespace is `default` where none is written, as for kubectl.
 * @param form of the name: Services are labels, other kinds subdomains
 * @returns undefined when the object has no usable name; `problems` says why
 */
export function identify(object: KubeObject, problems: Problem[], form: NameForm): Identity | undefined {
  const isClusterScoped = clusterScoped.has(object.kind);
  const subject: Subject = { title: titleOf(object), object, problems, broken: false };
  const top = spotOf(subject);
  const [wanted, ...older] = apiVersions[object.kind];
  if (object.apiVersion !== wanted && !older.includes(object.apiVersion)) {
    complain(top, ['apiVersion'], {
      code: 'API_VERSION_UNKNOWN',
      message: `Cannot read ${object.kind} of apiVersion ${quote(object.apiVersion)}`,
      hint: `Write it as ${wanted}; \`kubectl convert\` can do that`,
    });
    return undefined;
  }
  const metadata = mappingIn(top, 'metadata');
  const name = metadata && textIn(metadata, 'name');
  if (!metadata || name === undefined || name === '') {
    if (!subject.broken) complain(top, ['metadata', 'name'], missingName);
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
  message: 'Cannot tell objects apart without metadata.name',
  hint: 'Give the object a name; generateName is for objects that the API server names',
} as const;

/** `Service shop/web`, also when nothing about the object is checked yet. */
export function titleOf(object: KubeObject): string {
  const safe = (text: string): string => (isDnsSubdomain(text) ? text : quote(text));
  const name = safe(metadataText(object, 'name') || '?');
  if (clusterScoped.has(object.kind)) return `${object.kind} ${name}`;
  return `${object.kind} ${safe(metadataText(object, 'namespace') || 'default')}/${name}`;
}

/** `shop/web` as it is written, for an object that could not be read. */
export function roughKey(object: KubeObject): string {
  return `${metadataText(object, 'namespace') || 'default'}/${metadataText(object, 'name')}`;
}

function metadataText(object: KubeObject, key: 'namespace' | 'name'): string {
  const metadata = object.value['metadata'];
  if (typeof metadata !== 'object' || metadata === null || Array.isArray(metadata)) return '';
  const value = (metadata as JsonObject)[key];
  return typeof value === 'string' ? value : '';
}

/** Leaves a Service to another proxy, whatever its value; before kube-proxy 1.36 also a slice. */
export const proxyNameLabel = 'service.kubernetes.io/service-proxy-name';
/** Takes a slice out of rules, whatever its value; before kube-proxy 1.36 also a Service. */
export const headlessLabel = 'service.kubernetes.io/headless';
/** Labels by which kube-proxy ignores objects (`labelSelector…` in `ProxyServer.Run`, `cmd/kube-proxy/app/server.go`). */
export type ForeignLabel = typeof proxyNameLabel | typeof headlessLabel;

/** The label for which a Service is ignored: first the one that counts in every version of kube-proxy. */
export const foreignLabelOfService = (labels: Spot | undefined): ForeignLabel | undefined =>
  firstLabel(labels, [proxyNameLabel, headlessLabel]);

/** The label for which a slice is ignored, in the same order. */
export const foreignLabelOfSlice = (labels: Spot | undefined): ForeignLabel | undefined =>
  firstLabel(labels, [headlessLabel, proxyNameLabel]);

function firstLabel(labels: Spot | undefined, keys: readonly ForeignLabel[]): ForeignLabel | undefined {
  return labels && keys.find((key) => Object.hasOwn(labels.value, key));
}
