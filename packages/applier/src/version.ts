/** The version of `sluiced`; a test compares it with package.json. A single executable has no package.json beside it. */
export const version = '0.1.0';

/** What `sluiced version -o json` says: enough to tell two nodes apart. */
export interface VersionReport {
  readonly version: string;
  readonly node: string;
  readonly platform: string;
  readonly arch: string;
}

/** @param runtime the process that it runs in: its Node, and what it was built for */
export function versionReport(runtime: {
  readonly versions: { readonly node: string };
  readonly platform: string;
  readonly arch: string;
}): VersionReport {
  return { version, node: runtime.versions.node, platform: runtime.platform, arch: runtime.arch };
}

/** The same for people: one line, the version first. */
export function versionLine(report: VersionReport): string {
  return `sluiced ${report.version} (${report.platform} ${report.arch}, Node ${report.node})\n`;
}
