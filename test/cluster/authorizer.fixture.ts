/** A rule of a role. https://kubernetes.io/docs/reference/access-authn-authz/rbac/ */
export interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly string[];
}

/** A role that is bound: everywhere, or in its namespace. */
export interface Role {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly rules?: readonly Rule[];
}

/** What a request wants to do with what. */
export interface Wanted {
  readonly verb: string;
  readonly group: string;
  readonly resource: string;
  readonly namespace?: string;
  readonly name?: string;
}

const verbs: Readonly<Record<string, string>> = { POST: 'create', PUT: 'update', DELETE: 'delete' };

/** Reads a request as the API server does: `/apis/GROUP/VERSION/namespaces/NAMESPACE/RESOURCE/NAME`, without a group below `/api`. */
export function wantedBy(method: string, path: string): Wanted {
  const url = new URL(path, 'https://server');
  const [root, ...parts] = url.pathname.split('/').filter((part) => part !== '');
  const [group = '', rest] = root === 'api' ? ['', parts.slice(1)] : [parts[0], parts.slice(2)];
  const isInside = rest[0] === 'namespaces' && rest.length > 2;
  const [resource = '', name] = isInside ? rest.slice(2) : rest;
  const reading = url.searchParams.get('watch') === '1' ? 'watch' : name === undefined ? 'list' : 'get';
  return {
    verb: verbs[method] ?? reading,
    group,
    resource,
    ...(isInside && { namespace: rest[1] ?? '' }),
    ...(name !== undefined && { name }),
  };
}

/** Whether one of the roles allows it. */
export function isGranted(roles: readonly Role[], wanted: Wanted): boolean {
  return roles.some(
    ({ kind, metadata, rules = [] }) =>
      (kind === 'ClusterRole' || metadata.namespace === wanted.namespace) && rules.some((rule) => allows(rule, wanted)),
  );
}

function allows({ apiGroups, resources, resourceNames, verbs: allowed }: Rule, wanted: Wanted): boolean {
  const isNamed = resourceNames === undefined || (wanted.name !== undefined && resourceNames.includes(wanted.name));
  return (
    apiGroups.includes(wanted.group) && resources.includes(wanted.resource) && allowed.includes(wanted.verb) && isNamed
  );
}
