/** A rule of a role. https://kubernetes.io/docs/reference/access-authn-authz/rbac/ */
export interface RbacRule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly string[];
}

/** A bound role: everywhere, or in its namespace. */
export interface RbacRole {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly rules?: readonly RbacRule[];
}

/** The verb and resource of a request. */
export interface RequestAttributes {
  readonly verb: string;
  readonly group: string;
  readonly resource: string;
  readonly namespace?: string;
  readonly name?: string;
}

const verbs: Readonly<Record<string, string>> = { POST: 'create', PUT: 'update', DELETE: 'delete' };

/** Reads a request as the API server does: `/apis/GROUP/VERSION/namespaces/NAMESPACE/RESOURCE/NAME`, without a group below `/api`. */
export function attributesOf(method: string, path: string): RequestAttributes {
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

/** Whether one of the roles permits the request. */
export function isGranted(roles: readonly RbacRole[], attributes: RequestAttributes): boolean {
  return roles.some(
    ({ kind, metadata, rules = [] }) =>
      (kind === 'ClusterRole' || metadata.namespace === attributes.namespace) &&
      rules.some((rule) => allows(rule, attributes)),
  );
}

function allows(
  { apiGroups, resources, resourceNames, verbs: allowed }: RbacRule,
  attributes: RequestAttributes,
): boolean {
  const isNamed =
    resourceNames === undefined || (attributes.name !== undefined && resourceNames.includes(attributes.name));
  return (
    apiGroups.includes(attributes.group) &&
    resources.includes(attributes.resource) &&
    allowed.includes(attributes.verb) &&
    isNamed
  );
}
