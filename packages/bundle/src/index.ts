export * from './link/program.ts';
export * from './link/layered.ts';
export { repackChains, PackedChains } from './link/packed.ts';
export { addAll } from './add-all.ts';
export * from './problem.ts';
export * from './rulefile.ts';
export * from './read-rulefile.ts';
export * from './limits.ts';
export * from './documents.ts';
export * from './node.ts';
export { ResolveCache, ruleFiles } from './resolve-cache.ts';
export {
  type BundleFiles,
  changedFiles,
  evictSections,
  type SourcedFiles,
  SourceFiles,
  sourceOf,
  type TextSource,
  withFilesOf,
} from './source.ts';
export * from './reach.ts';
export * from './resolve.ts';
export * from './machine.ts';
export * from './host-facts.ts';
export * from './seal.ts';
export * from './texts-digest.ts';
export * from './tree.ts';
export * from './release/names.ts';
export * from './release/sums.ts';
export * from './release/release.ts';
export * from './release/make.ts';
export * from './release/armour.ts';
export * from './release/signers.ts';
export * from './release/signed.ts';
export * from './release/accept.ts';
export * from './release/waves.ts';
export * from './release/receipt.ts';
export * from './archive/archive.ts';
export * from './archive/contents.ts';
export * from './rules/address.ts';
export * from './rules/cidr.ts';
export * from './rules/sysctl.ts';
export * from './rules/kernel.ts';
export * from './rules/rule.ts';
export * from './rules/read.ts';
export * from './rules/print.ts';
export * from './virtual/sets.ts';
export * from './virtual/values.ts';
export * from './virtual/read-ipset.ts';
export * from './virtual/read-ipvs.ts';
export { lineFamily, readVirtualFile, serverName, type VirtualFile, type VirtualLine } from './virtual/file.ts';
export * from './virtual/resolve.ts';
export * from './virtual/state.ts';
export * from './link/shared.ts';
export * from './link/chains.ts';
export { jumpedChains } from './link/jumps.ts';
export * from './link/of-service.ts';
export * from './link/host.ts';
export * from './link/flat.ts';
export * from './link/change.ts';
export * from './link/text.ts';
export * from './link/tree/program.ts';
export * from './link/tree/link.ts';
export * from './link/tree/memory.ts';
export * from './link/tree/linker.ts';
export * from './link/tree/change.ts';
export * from './link/tree/entries.ts';
export * from './link/tree/flatten.ts';
export * from './link/tree/limits.ts';
export * from './link/tree/read-back.ts';
export { reflexiveBytecode } from './rules/reflexive.ts';
export { marksLate, withoutLateMarks } from './link/tree/in-place.ts';
export { replaceChains, type Replacement } from './link/tree/replace.ts';
export { targetOf } from './rules/words.ts';
export * from './trace.ts';
export * from './trace/packet.ts';
