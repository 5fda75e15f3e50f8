import { isReleaseFile } from './names.ts';
import type { BundleTool } from '@sluice/netfilter';

/** The meaning of a path inside a bundle. */
type BundlePath =
  | { readonly kind: 'cluster' | 'git' | 'quarantine' }
  | { readonly kind: 'profile' | 'sysctl'; readonly profile: string }
  | {
      readonly kind: 'base';
      readonly profile: string;
      readonly where: 'first' | 'last';
      readonly tool: BundleTool;
    }
  | {
      readonly kind: 'service';
      readonly profile: string;
      readonly namespace: string;
      readonly name: string;
      readonly tool: BundleTool;
    }
  | { readonly kind: 'node'; readonly node: string };

/** Has the digest of a directory that `sluice` wrote; in place last. README.md, "When is a directory a bundle?" */
export const completeFile = '.sluice-complete';
/** The whole content of `.sluice-complete`: with anything else a writer is not done, or it is none of ours. */
export const completeForm = /^sha256:[0-9a-f]{64}\n$/;
/** What its writer changed last. */
export const changesFile = '.sluice-changes';
// Paths below the bundle directory.
export const clusterFile = 'cluster.yaml';
export const quarantineFile = 'quarantine.yaml';
export const profileFile = (profile: string): string => `profiles/${profile}/profile.yaml`;
export const sysctlFile = (profile: string): string => `profiles/${profile}/base/sysctl.conf`;
export const baseFile = (profile: string, where: 'first' | 'last', tool: BundleTool): string =>
  `profiles/${profile}/base/${where}.${tool}`;
export const serviceFile = (profile: string, namespace: string, name: string, tool: BundleTool): string =>
  `profiles/${profile}/services/${namespace}/${name}.${tool}`;
export const nodeFile = (node: string): string => `nodes/${node}/node.yaml`;

/** Files of the format that configure Git not to ignore or rewrite other files. */
export const gitFiles: Readonly<Record<string, string>> = {
  '.gitattributes': '* -text\n',
  '.gitignore': '!*\n/.sluice-*\n',
};

const label = '[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?';
const subdomain = `${label}(?:\\.${label})*`;
const forms = {
  profile: new RegExp(`^profiles/(${subdomain})/profile\\.yaml$`),
  sysctl: new RegExp(`^profiles/(${subdomain})/base/sysctl\\.conf$`),
  base: new RegExp(`^profiles/(${subdomain})/base/((?:first|last)\\.(?:ip6?tables|nft)|first\\.(?:ipset|ipvs))$`),
  service: new RegExp(`^profiles/(${subdomain})/services/(${label})/(${label})\\.(ip6?tables|ipset|ipvs|nft)$`),
  node: new RegExp(`^nodes/(${subdomain})/node\\.yaml$`),
};

/** Reads a path; undefined when the format has no such file. */
export function readPath(path: string): BundlePath | undefined {
  if (path === clusterFile) return { kind: 'cluster' };
  if (path === quarantineFile) return { kind: 'quarantine' };
  if (Object.hasOwn(gitFiles, path)) return { kind: 'git' };
  let match: RegExpExecArray | null;
  if ((match = forms.service.exec(path))) {
    const [, profile, namespace, name, tool] = match as unknown as [string, string, string, string, BundleTool];
    return { kind: 'service', profile, namespace, name, tool };
  }
  if ((match = forms.node.exec(path))) return { kind: 'node', node: match[1] as string };
  if ((match = forms.profile.exec(path))) return { kind: 'profile', profile: match[1] as string };
  if ((match = forms.sysctl.exec(path))) return { kind: 'sysctl', profile: match[1] as string };
  if ((match = forms.base.exec(path))) {
    const [, profile, file] = match as unknown as [string, string, string];
    const [where, tool] = file.split('.') as ['first' | 'last', BundleTool];
    return { kind: 'base', profile, where, tool };
  }
  return undefined;
}

/** `shop/web`, of the path of a Service's file; of another path empty. */
export function serviceOf(path: string): string {
  const what = readPath(path);
  return what?.kind === 'service' ? `${what.namespace}/${what.name}` : '';
}

/** The profile that a file belongs to; of files of all profiles, and of other paths, empty. */
export function profileIn(path: string): string {
  const what = readPath(path);
  return what && 'profile' in what ? what.profile : '';
}

/** True for paths that are allowed in a bundle directory but not part of the tree digest. */
export function isOutsideTree(path: string): boolean {
  return path === '.git' || path.startsWith('.git/') || path.startsWith('.sluice-') || isReleaseFile(path);
}
