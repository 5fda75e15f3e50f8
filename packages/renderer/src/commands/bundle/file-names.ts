import type { BundleFiles } from '@sluice/bundle';

/**
 * The first file of each Service, and of each profile, relative to the current directory: where a finding about one of them points to.
 * @param dir the bundle as the user named it; a Git revision is left out
 * @returns of `shop/web`, a Service, or `default`, a profile
 */
export function fileNames(files: BundleFiles, dir: string): (name: string) => string | undefined {
  const folder = dir.slice(dir.indexOf(':') + 1).replace(/\/+$/, '');
  const found = new Map<string, string>();
  for (const path of files.keys()) {
    const [, profile] = /^profiles\/([^/]+)\//.exec(path) ?? [];
    const [, service] = /\/services\/([^/]+\/[^/.]+)\./.exec(path) ?? [];
    const name = service ?? profile;
    if (name !== undefined && !found.has(name)) found.set(name, path);
  }
  return (name) => {
    const path = found.get(name);
    return path === undefined || folder === '' || folder === '.' ? path : `${folder}/${path}`;
  };
}
