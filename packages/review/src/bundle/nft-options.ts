import { baseFile } from '@sluice/bundle';
import { type NftTableOptions, readNftTable, tableOptions } from '@sluice/netfilter';
import type { BundleView } from './view.ts';

/** The options of the table of a profile; those of a plain one where its text is refused. */
export const nftOptionsOf = ({ files }: Pick<BundleView, 'files'>, profile: string): NftTableOptions =>
  tableOptions([readNftTable(files.get(baseFile(profile, 'first', 'nft')) ?? '') ?? '']);
