/** The challenge of a registry: `WWW-Authenticate`. */
export type Challenge =
  | { readonly kind: 'basic' }
  | {
      readonly kind: 'bearer';
      readonly realm: string;
      readonly service: string | undefined;
      readonly scope: string | undefined;
    };

/**
 * Parses `WWW-Authenticate` (RFC 9110, section 11.6.1) and returns the first supported challenge.
 * @returns undefined when there is none
 */
export function readChallenge(header: string | undefined): Challenge | undefined {
  if (header === undefined || header.length > 8192) return undefined;
  const scheme = /(?:^|,)\s*(basic|bearer)(?=\s|,|$)/i.exec(header);
  if (scheme === null) return undefined;
  if (scheme[1]?.toLowerCase() === 'basic') return { kind: 'basic' };
  const parameters = new Map<string, string>();
  for (const [, name = '', quoted, plain] of header
    .slice(scheme.index + scheme[0].length)
    .matchAll(/([a-z_]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s",]+))/gi))
    if (!parameters.has(name.toLowerCase()))
      parameters.set(name.toLowerCase(), plain ?? (quoted ?? '').replace(/\\(.)/g, '$1'));
  const realm = parameters.get('realm');
  if (realm === undefined) return undefined;
  return { kind: 'bearer', realm, service: parameters.get('service'), scope: parameters.get('scope') };
}
