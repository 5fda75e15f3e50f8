export * from './rulefile.ts';
export * from './read-rulefile.ts';
export { describeLines, describeRules, virtualLines, withoutGuard } from './virtual/describe.ts';
export * from './documents.ts';
export * from './eligibility.ts';
export * from './node.ts';
export { ResolveCache, ruleFiles } from './resolve-cache.ts';
export {
  type BundleFiles,
  changedFiles,
  SourceFiles,
  sourceOf,
  type TextSource,
  withFilesOf,
} from './source.ts';
export * from './file-scope.ts';
export * from './resolve.ts';
export * from './machine.ts';
export * from './host-facts.ts';
export * from './observation/observation.ts';
export * from './observation/connections.ts';
export * from './observation/digest.ts';
export * from './observation/print.ts';
export * from './observation/read.ts';
export * from './observation/saved-files.ts';
export * from './parity/report.ts';
export * from './parity/read.ts';
export * from './seal/recent-changes.ts';
export * from './seal/running-seal.ts';
export * from './seal/seal.ts';
export * from './seal/texts-digest.ts';
export * from './tree.ts';
export * from './names.ts';
export * from './release/sums.ts';
export * from './release/release.ts';
export * from './release/make.ts';
export * from './release/armour.ts';
export * from './release/signers.ts';
export * from './release/signed.ts';
export * from './release/accept.ts';
export * from './release/wave-specs.ts';
export * from './release/waves.ts';
export * from './json-schema.ts';
export * from './release/receipt.ts';
export * from './certificate/certificate.ts';
export * from './archive/archive.ts';
export * from './archive/contents.ts';
export { printTar } from './archive/tar.ts';
export { readVirtualFile, serverName, type VirtualFile } from './virtual/file.ts';
export * from './virtual/resolve.ts';
