/** A repository in a registry, with a tag or a digest. */
export interface Reference {
  /** `host` or `host:port`, as in `registry.example.com:5000`. */
  readonly registry: string;
  readonly repository: string;
  readonly tag?: string;
  /** `sha256:…`. */
  readonly digest?: string;
}

// OCI distribution-spec 1.1, "Pulling manifests".
const repositoryForm = /^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:\/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*$/;
const tagForm = /^[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}$/;
const digestForm = /^sha256:[0-9a-f]{64}$/;
const registryForm = /^(?:[a-zA-Z0-9](?:[-a-zA-Z0-9.]*[a-zA-Z0-9])?|\[[0-9a-fA-F:.]+\])(?::[0-9]{1,5})?$/;

export const isTag = (text: unknown): text is string => typeof text === 'string' && tagForm.test(text);
export const isDigest = (text: unknown): text is string => typeof text === 'string' && digestForm.test(text);

/**
 * Parses `REGISTRY/REPOSITORY[:TAG][@DIGEST]`. The registry is required: there is no default registry.
 * @returns the reference, or undefined for another form
 */
export function readReference(text: string): Reference | undefined {
  const slash = text.indexOf('/');
  const [named = '', digest, more] = text.slice(slash + 1).split('@');
  const registry = text.slice(0, Math.max(slash, 0));
  const isHost = registryForm.test(registry) && (/[.:]/.test(registry) || registry === 'localhost');
  const [repository = '', tag, rest] = named.split(':');
  if (!isHost || more !== undefined || rest !== undefined) return undefined;
  if (repository.length > 255 || !repositoryForm.test(repository)) return undefined;
  if ((tag !== undefined && !tagForm.test(tag)) || (digest !== undefined && !digestForm.test(digest))) return undefined;
  return { registry, repository, ...(tag === undefined ? {} : { tag }), ...(digest === undefined ? {} : { digest }) };
}
