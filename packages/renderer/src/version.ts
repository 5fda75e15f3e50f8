import type { VersionSource } from '@sluice/cli';

/** The version of both programs; a test compares it with package.json. A single executable has no package.json beside it. */
export const version = '0.1.0';

/** What the command `version` says. */
export async function versionSource(runtime: VersionSource['runtime']): Promise<VersionSource> {
  const { bundleFormats, releaseFeatures } = await import('@sluice/bundle');
  return { version, bundleFormats, releaseFeatures, runtime };
}
