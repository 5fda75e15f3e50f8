import { printable } from '@sluice/cli';
import type { CommandError } from '../../command-error.ts';
import { configError } from '../terminal/terminal.ts';

/** What a URL says of `source` in sluiced.yaml. */
export interface SourceFields {
  readonly kind: 'oci' | 'https' | 'git' | 'dir';
  /** The fields of that kind; left out are those for which the default of the config counts. */
  readonly fields: Readonly<Record<string, string>>;
}

const sourceForms =
  'oci://REGISTRY/REPOSITORY:TAG, https://HOST/PATH#TAG, git+https://HOST/PATH#BRANCH:PATH, git+ssh://USER@HOST/PATH#BRANCH:PATH or dir:/PATH';
/** A longer URL is cut in messages; the config has limits of its own. */
const shownMax = 200;

/**
 * Reads the URL of a source. The values in it are checked by the schema of the config that is made of them.
 * @throws CommandError (`NODE_CONFIG_INVALID`) for another form, and for a password or token in it, which is not printed
 */
export function readSourceUrl(text: string): SourceFields {
  const [, scheme = '', rest = ''] = /^([a-z+]+):(.+)$/.exec(text) ?? [];
  const [, userinfo] = /^\/\/([^/]*)@/.exec(rest) ?? [];
  if ((userinfo !== undefined && !(scheme === 'git+ssh' && /^[^:]*$/.test(userinfo))) || /\?/.test(rest)) {
    const shown = text.replace(/\/\/[^/]*@/, '//…@').replace(/\?.*$/s, '?…');
    const hint =
      'Write the password, token or key into a file that root and sluice-fetch alone can read, and pass --credentials FILE';
    throw misfit(shown, 'a user name, a password or a query does not belong in it', hint);
  }
  const [address, fragment] = rest.split(/#(.*)/s, 2) as [string, string?];
  switch (scheme) {
    case 'oci':
      if (address.startsWith('//') && fragment === undefined)
        return { kind: 'oci', fields: { reference: address.slice(2) } };
      break;
    case 'http':
    case 'https':
      return { kind: 'https', fields: { url: `${scheme}:${address}`, ...present({ tag: fragment }) } };
    case 'git+http':
    case 'git+https':
    case 'git+ssh': {
      const [branch, path] = (fragment ?? '').split(/:(.*)/s, 2) as [string, string?];
      return { kind: 'git', fields: { url: `${scheme.slice(4)}:${address}`, ...present({ branch, path }) } };
    }
    case 'dir':
      if (/^\/(?!\/)/.test(address) && fragment === undefined) return { kind: 'dir', fields: { path: address } };
  }
  throw misfit(text, 'not the form of a source', `A source is ${sourceForms}`);
}

/** Those that are there and not empty. */
const present = (fields: Readonly<Record<string, string | undefined>>): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value)) as Record<string, string>;

function misfit(shown: string, why: string, hint: string): CommandError {
  return configError(`Cannot use the source ${printable(JSON.stringify(shown.slice(0, shownMax)))}: ${why}`, hint);
}
