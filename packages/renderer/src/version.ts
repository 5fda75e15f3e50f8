import type { VersionSource } from '@sluice/cli';

/** The version of both programs; a test compares it with package.json, which a single executable does not carry. */
export const version = '0.1.0';

/** Input of the command `version`: the program's version, bundle formats, release features and runtime. */
export async function versionSource(runtime: VersionSource['runtime']): Promise<VersionSource> {
  const { bundleFormats, releaseFeatures } = await import('@sluice/bundle');
  return { version, bundleFormats, releaseFeatures, runtime };
}
